package gcalsim_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"
)

// reply is an answer as it came over the wire.
type reply struct {
	code   int
	header http.Header
	text   string
}

// raw sends what the official client would refuse to send. headers are name, value pairs.
func (b *bench) raw(method, path, body string, headers ...string) reply {
	b.t.Helper()
	req, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	require.NoError(b.t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(b.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	require.NoError(b.t, resp.Body.Close())
	return reply{resp.StatusCode, resp.Header, string(text)}
}

// authed is raw with a token of the default account.
func (b *bench) authed(method, path, body string) reply {
	b.t.Helper()
	return b.raw(method, path, body, "Authorization", "Bearer "+b.token)
}

func (b *bench) postEvent(body string) reply {
	b.t.Helper()
	return b.authed(http.MethodPost, "/calendar/v3/calendars/work%40example.com/events", body)
}

type envelope struct {
	Error struct {
		Code    int
		Message string
		Errors  []struct{ Domain, Reason, Message, LocationType, Location string }
		Status  string
		Details []struct {
			Type     string `json:"@type"`
			Reason   string
			Domain   string
			Metadata map[string]string
		}
	}
}

func (b *bench) envelope(r reply) envelope {
	b.t.Helper()
	require.Equal(b.t, "application/json; charset=UTF-8", r.header.Get("Content-Type"))
	var e envelope
	require.NoError(b.t, json.Unmarshal([]byte(r.text), &e), r.text)
	require.Equal(b.t, r.code, e.Error.Code)
	return e
}

func (b *bench) object(r reply) map[string]any {
	b.t.Helper()
	var m map[string]any
	require.NoError(b.t, json.Unmarshal([]byte(r.text), &m), r.text)
	return m
}
