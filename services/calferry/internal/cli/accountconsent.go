package cli

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"time"

	"connectrpc.com/connect"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
)

const (
	// consentPatience is how long a sign-in is good: the server keeps it no longer.
	consentPatience = 10 * time.Minute
	// goodbye is how long the browser may take to fetch the last page.
	goodbye = 3 * time.Second
)

// consent has a person sign in by browser: Google sends the browser back to a port of this machine.
func (c *connecting) consent(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, consentPatience, fmt.Errorf("nobody signed in within %s; run the command again", consentPatience))
	defer cancel()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for Google's answer: %w", err)
	}
	begun, err := c.server.client().BeginConnect(ctx, connect.NewRequest(&calferryv1.BeginConnectRequest{
		Account: c.account, Client: c.client, ExistingCalendars: c.existing, NewCalendars: c.fresh, RedirectUrl: "http://" + l.Addr().String() + "/",
	}))
	if err != nil {
		return errors.Join(c.server.explainAPI(err), l.Close())
	}
	back := &returning{connecting: c, state: begun.Msg.GetState(), done: make(chan consented, 1)}
	server := &http.Server{Handler: back, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
		defer cancel()
		_ = server.Shutdown(stop) // what is left is the browser's
	}()
	_, _ = fmt.Fprintf(c.app.Stderr, "Sign in with Google in a browser on this machine:\n\n  %s\n\n", begun.Msg.GetUrl())
	if c.app.Terminal && !c.noBrowser {
		openBrowser(ctx, begun.Msg.GetUrl())
	}
	select {
	case end := <-back.done:
		if end.err != nil {
			return &exitError{exitAuth, c.server.explainAPI(end.err)}
		}
		return c.connected(end.account)
	case err := <-failed:
		return fmt.Errorf("wait for Google's answer: %w", err)
	case <-ctx.Done():
		return &exitError{exitAuth, context.Cause(ctx)}
	}
}

type consented struct {
	account *calferryv1.AccountStatus
	err     error
}

// returning takes the browser back.
type returning struct {
	*connecting
	state string
	done  chan consented
}

// ServeHTTP implements http.Handler. A request without this sign-in's state is not Google's.
func (b *returning) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if r.URL.Path != "/" || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(b.state)) != 1 {
		http.NotFound(w, r)
		return
	}
	var end consented
	res, err := b.server.client().CompleteConnect(r.Context(), connect.NewRequest(&calferryv1.CompleteConnectRequest{
		State: b.state, Code: q.Get("code"), Error: q.Get("error"),
	}))
	title, text := "The account is connected", "You can close this page, and go on in the terminal."
	if end.err = err; err != nil {
		title, text = "The account is not connected", b.server.explainAPI(err).Error()+"."
	} else {
		end.account = res.Msg.GetAccount()
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	_, _ = fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>%s</title><h1>%[1]s</h1><p>%s</p></html>\n", title, html.EscapeString(text))
	select {
	case b.done <- end:
	default: // the browser came twice
	}
}

// openBrowser tries to show an address; the address is printed in any case.
func openBrowser(ctx context.Context, address string) {
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	_ = exec.CommandContext(context.WithoutCancel(ctx), name, args...).Start() // there may be no browser here
}
