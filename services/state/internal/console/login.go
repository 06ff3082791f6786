package console

import (
	"log/slog"
	"net/http"
	"strings"
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
	c.show(w, r, http.StatusOK, "login", frame{Title: "Log in", Body: struct{ Error string }{}})
}

func (c *Console) logIn(w http.ResponseWriter, r *http.Request) {
	if !c.guard.Required() {
		http.Redirect(w, r, c.base+"/", http.StatusSeeOther)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := c.guard.LogIn(w, r, r.PostFormValue("token")); err != nil {
		c.log.WarnContext(r.Context(), "A log-in failed", slog.String("from", r.RemoteAddr))
		c.show(w, r, http.StatusUnauthorized, "login", frame{Title: "Log in", Body: struct{ Error string }{sentence(err.Error())}})
		return
	}
	http.Redirect(w, r, c.base+"/", http.StatusSeeOther)
}

func (c *Console) logOut(w http.ResponseWriter, r *http.Request) {
	c.guard.LogOut(w, r)
	http.Redirect(w, r, c.base+"/login", http.StatusSeeOther)
}
