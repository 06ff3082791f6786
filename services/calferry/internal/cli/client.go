package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/calferry/calferry/pkg/config"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/proto/gen/calferry/v1/calferryv1connect"
)

// clientSettings say where a running Calferry is.
type clientSettings struct {
	Server string        `flag:"server" file:"server" default:"http://127.0.0.1:8080" help:"address of a running Calferry's API"`
	Token  config.Secret `flag:"auth-token" file:"state.auth_token" default:"" help:"token that API and console ask for; at least 16 characters"`
}

func (s clientSettings) client() calferryv1connect.CalferryServiceClient {
	return calferryv1connect.NewCalferryServiceClient(http.DefaultClient, strings.TrimSuffix(s.Server, "/"),
		connect.WithInterceptors(bearer(s.Token)))
}

// bearer sends the token along, on streams too.
type bearer config.Secret

func (b bearer) set(h http.Header) {
	if b != "" {
		h.Set("Authorization", "Bearer "+config.Secret(b).Reveal())
	}
}

// WrapUnary implements connect.Interceptor.
func (b bearer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		b.set(req.Header())
		return next(ctx, req)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (b bearer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		b.set(conn.RequestHeader())
		return conn
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (b bearer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// explainAPI makes one line of an API error that says what to do.
func (s clientSettings) explainAPI(err error) error {
	if err == nil {
		return nil
	}
	c, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	text := c.Message()
	// Most messages say themselves what to do.
	if hint := hintOf(c); hint != "" && !strings.Contains(text, ";") {
		text += "; " + hint
	}
	switch c.Code() {
	case connect.CodeUnavailable:
		if !connect.IsWireError(c) {
			return fmt.Errorf("no Calferry answers at %s: start one with `calferry up`, or name another with --server", s.Server)
		}
	case connect.CodeUnauthenticated:
		return &exitError{exitAuth, errors.New("the server asks for its token: name its file with --auth-token-file")}
	case connect.CodePermissionDenied:
		return &exitError{exitAuth, errors.New(text)}
	case connect.CodeUnimplemented:
		return fmt.Errorf("the Calferry at %s does not know this: bring it to version %s", s.Server, version())
	}
	return errors.New(text)
}

// hintOf is what the server says a person can do.
func hintOf(err *connect.Error) string {
	for _, d := range err.Details() {
		m, err := d.Value()
		if info, ok := m.(*calferryv1.ErrorInfo); ok && err == nil {
			return info.GetHint()
		}
	}
	return ""
}

// call is one run of a command that asks a running Calferry.
type call struct {
	*App
	calferryv1connect.CalferryServiceClient
	server *clientSettings
	args   []string
	// json is set when the output is for a program.
	json bool
}

// remote makes a command that asks a running Calferry. It has --json, and tells the API's errors as one line.
func (a *App) remote(use, short string, args cobra.PositionalArgs, run func(context.Context, *call) error, more ...any) *cobra.Command {
	server := &clientSettings{}
	var asJSON *bool
	cmd := a.command(use, short, args, append([]any{server}, more...), func(ctx context.Context, _ *env, args []string) error {
		c := &call{App: a, CalferryServiceClient: server.client(), server: server, args: args, json: *asJSON}
		return server.explainAPI(run(ctx, c))
	})
	asJSON = jsonFlag(cmd)
	return cmd
}

// print writes m as JSON, or what for people says.
func (c *call) print(m proto.Message, people func(w io.Writer)) error {
	if c.json {
		return c.writeProto(m)
	}
	w := tabwriter.NewWriter(c.Stdout, 0, 4, 2, ' ', 0)
	people(w)
	return w.Flush()
}

// subscription finds the one that is named by its id, or by a name that no other has.
func (c *call) subscription(ctx context.Context, named string) (*calferryv1.SubscriptionStatus, error) {
	res, err := c.GetSubscription(ctx, connect.NewRequest(&calferryv1.GetSubscriptionRequest{Id: named}))
	if err == nil {
		return res.Msg.GetSubscription(), nil
	}
	if code := connect.CodeOf(err); code != connect.CodeNotFound && code != connect.CodeInvalidArgument {
		return nil, err
	}
	var found []*calferryv1.SubscriptionStatus
	for s, err := range c.subscriptions(ctx, named) {
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(s.GetName(), named) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("no subscription has the id or name %q: `calferry status` lists them", named)
	}
	return nil, fmt.Errorf("%d subscriptions are named %q: use the id, which `calferry status` shows", len(found), named)
}

// id is that of the subscription that the command's first argument names.
func (c *call) id(ctx context.Context) (string, error) {
	s, err := c.subscription(ctx, c.args[0])
	return s.GetId(), err
}

// subscriptions are those that match a query, all of them when it is empty.
func (c *call) subscriptions(ctx context.Context, query string) iter.Seq2[*calferryv1.SubscriptionStatus, error] {
	return pages(func(token string) ([]*calferryv1.SubscriptionStatus, string, error) {
		res, err := c.ListSubscriptions(ctx, connect.NewRequest(&calferryv1.ListSubscriptionsRequest{Query: query, PageSize: maxPage, PageToken: token}))
		if err != nil {
			return nil, "", err
		}
		return res.Msg.GetSubscriptions(), res.Msg.GetNextPageToken(), nil
	})
}

// pages goes through a list of the API, page by page, until its end or the first error.
func pages[T any](next func(token string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token := ""; ; {
			items, after, err := next(token)
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if token = after; token == "" {
				return
			}
		}
	}
}

// collect reads a list to its end.
func collect[T any](list iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for item, err := range list {
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}

// ago shows how long a moment is past, or how far ahead.
func ago(at, now time.Time) string {
	if at.IsZero() || at.Unix() == 0 {
		return "-"
	}
	d := now.Sub(at)
	if d < 0 {
		return "in " + lasting(-d)
	}
	return lasting(d) + " ago"
}

// lasting writes a duration as exactly as its length makes sense of: seconds, minutes from a few hours on, or days.
func lasting(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Round(24*time.Hour).Hours())/24)
	case d >= 3*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	default:
		return d.Round(time.Second).String()
	}
}
