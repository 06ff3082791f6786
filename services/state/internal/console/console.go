// Package console is the web page of Calferry: what every subscription is doing, and what can be done about it.
//
// It guarantees that its pages can be read and its buttons used without scripts, that they load nothing from
// elsewhere, and that they show the numbers of the writer's books: writes that wait are never counted as done.
package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/calferry/calferry/services/state/internal/access"
	"github.com/calferry/calferry/services/state/internal/api"
	"github.com/calferry/calferry/services/state/internal/audit"
	"github.com/calferry/calferry/services/state/internal/board"
)

//go:embed templates assets
var files embed.FS

// policy lets pages load only the console's own files, and be shown in no frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	api     *api.Service
	board   *board.Board
	guard   *access.Guard
	base    string
	now     func() time.Time
	log     *slog.Logger
	pages   map[string]*template.Template
	version string
}

// New makes the console. base is the path that it is served below, without a slash at its end.
func New(service *api.Service, b *board.Board, guard *access.Guard, base string, now func() time.Time, log *slog.Logger) (*Console, error) {
	c := &Console{api: service, board: b, guard: guard, base: base, now: now, log: log, pages: map[string]*template.Template{}}
	layout, err := template.New("layout.html").Funcs(c.functions()).ParseFS(files, "templates/shared/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse the console's layout: %w", err)
	}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("list the console's pages: %w", err)
	}
	for _, name := range names {
		page, err := layout.Clone()
		if err == nil {
			page, err = page.ParseFS(files, name)
		}
		if err != nil {
			return nil, fmt.Errorf("parse the console's page %s: %w", name, err)
		}
		c.pages[strings.TrimSuffix(path.Base(name), ".html")] = page
	}
	c.version, err = assetVersion()
	return c, err
}

// assetVersion changes with the assets, so that browsers may keep them for ever.
func assetVersion() (string, error) {
	sum := fnv.New64a()
	err := fs.WalkDir(files, "assets", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := files.ReadFile(path)
		_, _ = sum.Write(content) // never fails
		return err
	})
	return fmt.Sprintf("%x", sum.Sum64()), err
}

// Handler serves the console for paths without its base.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.overview)
	mux.HandleFunc("GET /events", c.events)
	c.accountRoutes(mux)
	mux.HandleFunc("GET /bulk", c.toChange(c.bulkForm))
	mux.HandleFunc("POST /bulk", c.bulk)
	mux.HandleFunc("GET /queues", c.queues)
	mux.HandleFunc("GET /actions", c.audit)
	mux.HandleFunc("GET /alerts", c.alerts)
	mux.HandleFunc("POST /alerts/test", c.testAlert)
	mux.HandleFunc("GET /subscriptions/new", c.toChange(c.addForm))
	mux.HandleFunc("POST /subscriptions/new", c.preview)
	mux.HandleFunc("POST /subscriptions", c.add)
	mux.HandleFunc("GET /subscriptions/{id}", c.subscription)
	mux.HandleFunc("GET /subscriptions/{id}/plan", c.plan)
	mux.HandleFunc("GET /subscriptions/{id}/edit", c.editForm)
	mux.HandleFunc("POST /subscriptions/{id}/edit", c.edit)
	mux.HandleFunc("GET /subscriptions/{id}/upkeep", c.toChange(c.upkeep))
	mux.HandleFunc("POST /subscriptions/{id}/{action}", c.act)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.problem(w, r, http.StatusNotFound, "There is no such page", "Its subscription may have been removed.")
	})
	open := http.NewServeMux()
	open.HandleFunc("GET /login", c.logInForm)
	open.HandleFunc("POST /login", c.logIn)
	open.HandleFunc("POST /logout", c.logOut)
	open.Handle("/login/", c.guard.Handler(c.signInFailed))
	assets := http.FileServerFS(files)
	open.HandleFunc("GET /assets/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("v") == c.version {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		assets.ServeHTTP(w, r)
	})
	open.Handle("/", c.guard.Wrap(access.ReadOnly(mux, http.HandlerFunc(c.viewer)), http.HandlerFunc(c.denied)))
	return secured(c.guard.CrossOrigin(open))
}

// secured sets the headers that keep a page from being framed, sniffed, cached or followed.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// frame is what every page shows around its own content.
type frame struct {
	Title  string
	Nav    string
	Follow string // what the page's live updates are about: "all", a subscription's id, or nothing
	Notice string
	Body   any

	Base    string
	Version string
	Now     time.Time
	// LogOut is whether there is a session to end, and MayChange whether who looks may change something: a page shows
	// no button that would do nothing or be refused. MayLook is set for those who may look, not change.
	LogOut, MayChange, MayLook bool
}

func (c *Console) show(w http.ResponseWriter, r *http.Request, status int, page string, f frame) {
	f.Base, f.Version, f.Now = c.base, c.version, c.now()
	who := access.From(r.Context())
	f.LogOut = who.Session
	f.MayChange, f.MayLook = who.Role >= access.Operator, who.Role == access.Viewer
	if f.Notice == "" {
		f.Notice = notices[r.URL.Query().Get("done")]
	}
	var out bytes.Buffer
	if err := c.pages[page].Execute(&out, f); err != nil {
		c.log.ErrorContext(r.Context(), "A page could not be made", slog.String("page", page), slog.Any("error", err))
		http.Error(w, "This page could not be made; the log of the state service tells why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = out.WriteTo(w) // the browser has gone
}

func (c *Console) problem(w http.ResponseWriter, r *http.Request, status int, title, detail string) {
	c.show(w, r, status, "problem", frame{Title: title, Body: struct{ Detail string }{detail}})
}

// failed shows an error of the API as a page.
func (c *Console) failed(w http.ResponseWriter, r *http.Request, err error) {
	status, text := statusOf(err), message(err)
	if status == http.StatusNotFound {
		c.problem(w, r, status, "There is no such subscription", "It may have been removed.")
		return
	}
	c.problem(w, r, status, "That did not work", text)
}

func message(err error) string {
	if text := optionTrouble(err); text != "" {
		return sentence(text)
	}
	if known, ok := errors.AsType[*connect.Error](err); ok {
		return sentence(known.Message())
	}
	return sentence(err.Error())
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	first, size := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(first)) + s[size:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

func statusOf(err error) int {
	switch connect.CodeOf(err) {
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodeInvalidArgument:
		return http.StatusUnprocessableEntity
	case connect.CodeFailedPrecondition, connect.CodeAborted:
		return http.StatusConflict
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeResourceExhausted, connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeCanceled:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

func (c *Console) functions() template.FuncMap {
	return template.FuncMap{
		"int":      func(n uint32) int { return int(n) },
		"uint":     number[uint64],
		"instant":  c.instant,
		"until":    c.until,
		"plural":   plural,
		"pace":     paceText,
		"number":   number[int],
		"age":      age,
		"count":    number[uint32],
		"choices":  func() map[string][]option { return formChoices },
		"dict":     dict,
		"sentence": sentence,
		"next":     func(i int) int { return i + 1 },
	}
}

// instant is a time as the server's zone has it, to be shown in the viewer's zone by the page's script.
func (c *Console) instant(at *timestamppb.Timestamp) any {
	if at == nil {
		return nil
	}
	t := at.AsTime()
	local := t.In(c.now().Location())
	layout := "2 Jan 15:04 MST"
	if local.Year() != c.now().Year() {
		layout = "2 Jan 2006 15:04 MST"
	}
	return struct{ Machine, Title, Text string }{t.UTC().Format(time.RFC3339), t.UTC().Format("2006-01-02 15:04:05 UTC"), local.Format(layout)}
}

// until is how long it takes until then.
func (c *Console) until(at *timestamppb.Timestamp) string { return about(at.AsTime().Sub(c.now())) }

// dict makes a map of its arguments, so that a part of a page can be given several values.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict needs pairs")
	}
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict key %v is no string", pairs[i])
		}
		m[key] = pairs[i+1]
	}
	return m, nil
}

// call makes one call of the API in this process.
func call[Req, Res any](ctx context.Context, method func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), req *Req) (*Res, error) {
	res, err := method(ctx, connect.NewRequest(req))
	audit.Record(ctx, req, err)
	if err != nil {
		return nil, err
	}
	return res.Msg, nil
}
