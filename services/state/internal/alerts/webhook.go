package alerts

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Headers of a post.
const (
	HeaderTimestamp = "Calferry-Timestamp" // seconds since 1970
	HeaderSignature = "Calferry-Signature" // "v1=" and the signature in hexadecimal
)

// sendPatience bounds one delivery.
const sendPatience = 10 * time.Second

// webhook posts JSON that its receiver can check.
type webhook struct {
	id, name, address string
	secret            []byte
	client            *http.Client
}

func newWebhook(address, secret string) *webhook {
	name := "webhook"
	if u, err := url.Parse(address); err == nil {
		name += " at " + u.Hostname()
	}
	return &webhook{id: idOf(address), name: name, address: address, secret: []byte(secret), client: &http.Client{
		Timeout: sendPatience,
		// What answers in another place has not got the message.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (w *webhook) Name() string { return w.name }
func (w *webhook) ID() string   { return w.id }

// post is the body. Its fields are documented in docs/api.md and only ever added to.
type post struct {
	ID         string     `json:"id"`
	Event      string     `json:"event"`
	Kind       string     `json:"kind"`
	Subject    string     `json:"subject"`
	Name       string     `json:"name"`
	Title      string     `json:"title"`
	Text       string     `json:"text"`
	Link       string     `json:"link,omitempty"`
	OpenedAt   *time.Time `json:"opened_at,omitempty"`
	ResolvedAt *time.Time `json:"resolved_at,omitempty"`
}

// Send posts the message, and takes any answer of 200 to 299 for success.
func (w *webhook) Send(ctx context.Context, m Message) error {
	body, err := json.Marshal(post{
		ID: m.Incident.GetId(), Event: m.Event, Kind: kindName(m.Incident.GetKind()), Subject: m.Incident.GetSubject(),
		Name: m.Incident.GetName(), Title: m.title(), Text: m.Incident.GetText(), Link: m.Link,
		OpenedAt: moment(m.Incident.GetOpenedAt()), ResolvedAt: moment(m.Incident.GetResolvedAt()),
	})
	if err != nil {
		return fmt.Errorf("encode the alert: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.address, bytes.NewReader(body))
	if err != nil {
		return errors.New("the webhook's address cannot be used; check it")
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Calferry")
	request.Header.Set(HeaderTimestamp, stamp)
	request.Header.Set(HeaderSignature, "v1="+Sign(w.secret, stamp, body))
	response, err := w.client.Do(request)
	if err != nil {
		return errors.New("the webhook did not take the message: " + safe(err))
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10) // so that the connection can be used again
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("the webhook answered with status %d; look at its own log", response.StatusCode)
	}
	return nil
}

// Sign is the HMAC-SHA256 of timestamp, a dot and the body, in hexadecimal.
func Sign(secret []byte, timestamp string, body []byte) string {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(timestamp + "."))
	m.Write(body)
	return hex.EncodeToString(m.Sum(nil))
}

func moment(at *timestamppb.Timestamp) *time.Time {
	if at == nil {
		return nil
	}
	t := at.AsTime().UTC()
	return &t
}
