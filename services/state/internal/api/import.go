package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/calferry/calferry/pkg/registry"
	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/export"
)

// importing is one import on its way.
type importing struct {
	service *Service
	request *calferryv1.ImportConfigRequest
	byID    map[string]*calferryv1.Subscription
	byName  map[string][]*calferryv1.Subscription
	named   map[string]bool // subscriptions that an entry stands for
	// calendars by name, for documents that know no ids; nil until somebody asks.
	calendars map[string]string
	// planned are the names of what a dry run would make, all of them and by feed and calendar.
	planned      []string
	plannedTwins map[string][]string
}

// wanted is one entry, read and checked.
type wanted struct {
	entry   *export.Entry
	options *calferryv1.Options
	every   time.Duration
	state   calferryv1.SubscriptionState
}

// ImportConfig makes the subscriptions equal to a document: again, it changes nothing. An entry that cannot be followed
// fails alone. A subscription is known by its id, else by its name; one without an address keeps its own.
func (s *Service) ImportConfig(ctx context.Context, req *connect.Request[calferryv1.ImportConfigRequest]) (*connect.Response[calferryv1.ImportConfigResponse], error) {
	doc, err := export.Read(req.Msg.GetDocument())
	if err != nil {
		return nil, Error(CodeInvalidDocument, "import: %w", err)
	}
	i := &importing{
		service: s, request: req.Msg, byID: map[string]*calferryv1.Subscription{},
		byName: map[string][]*calferryv1.Subscription{}, named: map[string]bool{}, plannedTwins: map[string][]string{},
	}
	rows := s.Board.Rows()
	for _, row := range rows {
		if sub := row.Subscription; !removing(sub) {
			i.byID[sub.GetId()] = sub
			i.byName[sub.GetName()] = append(i.byName[sub.GetName()], sub)
		}
	}
	out := &calferryv1.ImportConfigResponse{Notes: doc.Notes}
	for n := range doc.Subscriptions {
		if err := ctx.Err(); err != nil {
			return nil, s.failed(ctx, "import", err)
		}
		out.Subscriptions = append(out.Subscriptions, i.take(ctx, &doc.Subscriptions[n]))
	}
	if req.Msg.GetPrune() {
		for _, row := range rows {
			if sub := row.Subscription; !removing(sub) && !i.named[sub.GetId()] {
				out.Subscriptions = append(out.Subscriptions, i.prune(ctx, sub))
			}
		}
	}
	return connect.NewResponse(out), nil
}

// take follows one entry and tells what that changed.
func (i *importing) take(ctx context.Context, e *export.Entry) *calferryv1.ImportedSubscription {
	result := &calferryv1.ImportedSubscription{Id: e.ID, Name: e.Name}
	err := i.follow(ctx, e, result)
	if err != nil {
		result.Action, result.Detail = calferryv1.ImportAction_IMPORT_ACTION_FAILED, plainText(err)
	}
	return result
}

// plainText is an error without the name of its code, which people do not need.
func plainText(err error) string {
	if failure, ok := errors.AsType[*connect.Error](err); ok {
		return failure.Message()
	}
	return err.Error()
}

func (i *importing) follow(ctx context.Context, e *export.Entry, result *calferryv1.ImportedSubscription) error {
	known, err := i.find(e)
	if err != nil {
		return err
	}
	if known != nil {
		// Also when the entry fails: what it stands for is not pruned.
		i.named[known.GetId()] = true
		result.Id, result.Name = known.GetId(), cmp.Or(e.Name, known.GetName())
	}
	w, err := read(e)
	if err != nil {
		return err
	}
	if known == nil {
		return i.create(ctx, w, result)
	}
	return i.update(ctx, w, known, result)
}

// find is the subscription that an entry stands for, nil for a new one.
func (i *importing) find(e *export.Entry) (*calferryv1.Subscription, error) {
	var known *calferryv1.Subscription
	same := i.byName[e.Name]
	switch {
	case e.ID != "" && i.byID[e.ID] != nil:
		known = i.byID[e.ID]
	case len(same) > 1:
		return nil, fmt.Errorf("%d subscriptions have this name: give the id of the one that is meant", len(same))
	case len(same) == 1:
		known = same[0]
	}
	if known != nil && i.named[known.GetId()] {
		return nil, errors.New("another entry stands for the same subscription: give each its own id or name")
	}
	return known, nil
}

func read(e *export.Entry) (*wanted, error) {
	w := &wanted{entry: e, state: calferryv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE}
	if e.Paused {
		w.state = calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED
	}
	var err error
	if w.options, err = e.EventOptions(); err != nil {
		return nil, err
	}
	if err := checkOptions(w.options); err != nil {
		return nil, err
	}
	if w.every, err = e.Every(); err != nil {
		return nil, err
	}
	if err := checkInterval(w.every); err != nil {
		return nil, err
	}
	if strings.TrimSpace(e.Name) == "" && e.ID == "" {
		return nil, errors.New("the entry has neither id nor name")
	}
	if len(e.Name) > maxName {
		return nil, invalid("name has %d bytes: at most %d", len(e.Name), maxName)
	}
	return w, nil
}

// account is the id of the account that an entry names by id, name or address.
func (i *importing) account(e *export.Entry) (string, error) {
	name := cmp.Or(e.Account, i.request.GetAccount())
	if name == "" {
		return "", errors.New("no account is named: give one to the entry, or to the import")
	}
	var found []string
	for _, a := range i.service.Board.Accounts() {
		if a.GetId() == name {
			return name, nil
		}
		if strings.EqualFold(a.GetEmail(), name) || a.GetName() == name {
			found = append(found, a.GetId())
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("account %q is not connected: connect it first", name)
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("%d accounts are called %q: give the id of one", len(found), name)
	}
}

// calendar is the id of the calendar that an entry names.
func (i *importing) calendar(ctx context.Context, e *export.Entry, account string) (string, error) {
	if e.Calendar != "" {
		return e.Calendar, nil
	}
	if e.CalendarName != "" && i.request.GetCalendarId() == "" {
		if err := i.listCalendars(ctx, account); err != nil {
			return "", err
		}
		if id := i.calendars[e.CalendarName]; id != "" {
			return id, nil
		}
		return "", fmt.Errorf("the account has no calendar of its own that is called %q: create it, or name a calendar for the import", e.CalendarName)
	}
	if id := i.request.GetCalendarId(); id != "" {
		return id, nil
	}
	return "", errors.New("no calendar is named: give one to the entry, or to the import")
}

func (i *importing) listCalendars(ctx context.Context, account string) error {
	if i.calendars != nil {
		return nil
	}
	found, page := map[string]string{}, ""
	for {
		listed, next, err := i.service.Calendars.List(ctx, account, page, 0)
		if err != nil {
			return i.service.calendarFailed(ctx, "look for the calendar by its name", err)
		}
		for _, c := range listed {
			if c.Writable && found[c.Summary] == "" {
				found[c.Summary] = c.ID
			}
		}
		if page = next; page == "" {
			i.calendars = found
			return nil
		}
	}
}

func (i *importing) create(ctx context.Context, w *wanted, result *calferryv1.ImportedSubscription) error {
	source := w.entry.Source()
	if source == nil {
		return errors.New("this subscription is new and needs the address of its feed: give it url, or let the command line read it with url_file or url_env")
	}
	if _, err := parseFeed(source, i.service.Places); err != nil {
		return err
	}
	account, err := i.account(w.entry)
	if err != nil {
		return err
	}
	calendar, err := i.calendar(ctx, w.entry, account)
	if err != nil {
		return err
	}
	result.Action, result.Detail = calferryv1.ImportAction_IMPORT_ACTION_CREATE, "into "+calendar
	result.Id = ""
	place := feedIdentity(source) + "\x00" + calendar
	i.warn(result, i.service.twins(source, calendar, "", i.plannedTwins[place]...))
	i.warn(result, i.service.Namesakes(w.entry.Name, "", i.planned...))
	if i.request.GetDryRun() {
		i.planned = append(i.planned, w.entry.Name)
		i.plannedTwins[place] = append(i.plannedTwins[place], w.entry.Name)
		return nil
	}
	in := &calferryv1.CreateSubscriptionRequest{
		Name: w.entry.Name, Feed: source, Account: account, CalendarId: calendar, CalendarTimeZone: w.entry.TimeZone, Options: w.options,
	}
	if w.every > 0 {
		in.Interval = durationpb.New(w.every)
	}
	status, err := i.service.create(ctx, in, w.state)
	if err != nil {
		return err
	}
	result.Id = status.GetId()
	i.named[status.GetId()] = true
	return nil
}

// warn adds to what is told of an entry.
func (*importing) warn(result *calferryv1.ImportedSubscription, warnings []string) {
	for _, warning := range warnings {
		result.Detail += "; " + warning
	}
}

// update changes what differs. Account and calendar of a subscription never change.
func (i *importing) update(ctx context.Context, w *wanted, known *calferryv1.Subscription, result *calferryv1.ImportedSubscription) error {
	e, target := w.entry, known.GetTarget()
	if e.Calendar != "" && e.Calendar != target.GetCalendarId() {
		return fmt.Errorf("its calendar is %s and cannot change: remove the subscription and import it under another name", target.GetCalendarId())
	}
	if e.Account != "" {
		if account, err := i.account(e); err != nil {
			return err
		} else if account != target.GetAccount() {
			return errors.New("its account cannot change: remove the subscription and import it under another name")
		}
	}
	feed, err := i.newFeed(e, known)
	if err != nil {
		return err
	}
	var changes []string
	differs := func(what string, does bool) {
		if does {
			changes = append(changes, what)
		}
	}
	differs("name", e.Name != "" && e.Name != known.GetName())
	differs("feed", feed != nil)
	differs("options", !proto.Equal(w.options, orEmpty(known.GetOptions())))
	differs("interval", w.every != known.GetInterval().AsDuration())
	differs(pauses(w.state), w.state != known.GetState())
	result.Action, result.Detail = calferryv1.ImportAction_IMPORT_ACTION_UNCHANGED, ""
	if len(changes) == 0 {
		return nil
	}
	result.Action, result.Detail = calferryv1.ImportAction_IMPORT_ACTION_UPDATE, strings.Join(changes, ", ")
	if feed != nil {
		i.warn(result, i.service.twins(feed.source, target.GetCalendarId(), known.GetId()))
	}
	if i.request.GetDryRun() {
		return nil
	}
	return i.apply(ctx, w, known, feed)
}

func pauses(state calferryv1.SubscriptionState) string {
	if state == calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED {
		return "pause"
	}
	return "resume"
}

func orEmpty(o *calferryv1.Options) *calferryv1.Options {
	if o == nil {
		return new(calferryv1.Options)
	}
	return o
}

// newFeed is the feed that an entry names, nil when it names none or the one that is known.
func (i *importing) newFeed(e *export.Entry, known *calferryv1.Subscription) (*parsedFeed, error) {
	source := e.Source()
	if source == nil {
		return nil, nil
	}
	parsed, err := parseFeed(source, i.service.Places)
	if err != nil {
		return nil, err
	}
	if i.service.FeedKey == nil {
		return nil, Error(CodeMissingKey, "this service has no feed key, so it cannot keep a feed's address; set its key file")
	}
	if present, err := registry.OpenFeed(i.service.FeedKey, known); err == nil && proto.Equal(present, parsed.source) {
		return nil, nil
	}
	return &parsed, nil
}

func (i *importing) apply(ctx context.Context, w *wanted, known *calferryv1.Subscription, feed *parsedFeed) error {
	s := i.service
	_, err := s.edit(ctx, known.GetId(), func(sub *calferryv1.Subscription) error {
		if removing(sub) {
			return Error(CodeRemoving, "subscription %s is being removed; import again once it is gone", sub.GetId())
		}
		sub.Name = cmp.Or(w.entry.Name, sub.GetName())
		sub.Options, sub.State, sub.Interval = w.options, w.state, nil
		if w.every > 0 {
			sub.Interval = durationpb.New(w.every)
		}
		if feed == nil {
			return nil
		}
		return s.setFeed(sub, *feed)
	})
	if err == nil && w.state == calferryv1.SubscriptionState_SUBSCRIPTION_STATE_PAUSED {
		err = s.Turns.Halt(ctx, known)
	}
	if err != nil {
		return s.failed(ctx, "import", err)
	}
	return nil
}

// prune removes a subscription that the document lacks. Its events stay in Google.
func (i *importing) prune(ctx context.Context, sub *calferryv1.Subscription) *calferryv1.ImportedSubscription {
	result := &calferryv1.ImportedSubscription{
		Id: sub.GetId(), Name: sub.GetName(), Action: calferryv1.ImportAction_IMPORT_ACTION_REMOVE, Detail: "its events stay in Google",
	}
	if i.request.GetDryRun() {
		return result
	}
	_, err := i.service.RemoveSubscription(ctx, connect.NewRequest(&calferryv1.RemoveSubscriptionRequest{Id: sub.GetId()}))
	if err != nil {
		result.Action, result.Detail = calferryv1.ImportAction_IMPORT_ACTION_FAILED, plainText(err)
	}
	return result
}
