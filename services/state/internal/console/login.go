package console

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/calferry/calferry/services/state/internal/access"
)

// denied sends a browser to the log-in form and tells a program what is missing.
func (c *Console) denied(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "Log in, or send the auth token as a bearer token.", http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, c.base+"/login", http.StatusSeeOther)
}

func (c *Console) logInForm(w http.ResponseWriter, r *http.Request) {
	if !c.guard.Required() {
		http.Redirect(w, r, c.base+"/", http.StatusSeeOther)
		return
	}
	c.show(w, r, http.StatusOK, "login", frame{Title: "Log in", Nav: "none", Body: c.logInPage("")})
}

// logInPage is what the log-in form shows: why the last try failed, and the ways there are.
type logInPage struct {
	Error            string
	Tokens, Provider bool
}

func (c *Console) logInPage(failure string) logInPage {
	return logInPage{failure, c.guard.Tokens(), c.guard.Provider()}
}

// signInFailed shows the log-in form after a provider's sign-in that came to nothing.
func (c *Console) signInFailed(w http.ResponseWriter, r *http.Request, why string) {
	c.log.WarnContext(r.Context(), "A log-in failed", slog.String("from", r.RemoteAddr))
	c.show(w, r, http.StatusUnauthorized, "login", frame{Title: "Log in", Nav: "none", Body: c.logInPage(why)})
}

// toChange shows a page that is there only to change something to those who may.
func (c *Console) toChange(page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if access.From(r.Context()).Role < access.Operator {
			c.viewer(w, r)
			return
		}
		page(w, r)
	}
}

// viewer tells somebody who may only read that this is not for them.
func (c *Console) viewer(w http.ResponseWriter, r *http.Request) {
	c.problem(w, r, http.StatusForbidden, "You may only read", "Ask an operator to do this.")
}

func (c *Console) logIn(w http.ResponseWriter, r *http.Request) {
	if !c.guard.Required() {
		http.Redirect(w, r, c.base+"/", http.StatusSeeOther)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := c.guard.LogIn(w, r, r.PostFormValue("token")); err != nil {
		c.log.WarnContext(r.Context(), "A log-in failed", slog.String("from", r.RemoteAddr))
		c.show(w, r, http.StatusUnauthorized, "login", frame{Title: "Log in", Nav: "none", Body: c.logInPage(sentence(err.Error()))})
		return
	}
	http.Redirect(w, r, c.base+"/", http.StatusSeeOther)
}

func (c *Console) logOut(w http.ResponseWriter, r *http.Request) {
	c.guard.LogOut(w, r)
	http.Redirect(w, r, c.base+"/login", http.StatusSeeOther)
}
