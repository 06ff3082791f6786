package api

import (
	"context"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/access"
)

// Alerts sends tests to receivers of alerts.
type Alerts interface {
	Test(ctx context.Context) []*calferryv1.AlertDelivery
}

// TestAlert sends a test to every receiver and tells how each took it.
func (s *Service) TestAlert(ctx context.Context, _ *connect.Request[calferryv1.TestAlertRequest]) (*connect.Response[calferryv1.TestAlertResponse], error) {
	deliveries := s.Alerts.Test(ctx)
	if len(deliveries) == 0 {
		return nil, Error(CodeNoReceivers, "nobody receives alerts: set alert-webhook or alert-services")
	}
	return connect.NewResponse(&calferryv1.TestAlertResponse{Deliveries: deliveries}), nil
}

// ListAudit returns what people did, newest first. The log keeps the newest 10,000 actions.
func (s *Service) ListAudit(ctx context.Context, req *connect.Request[calferryv1.ListAuditRequest]) (*connect.Response[calferryv1.ListAuditResponse], error) {
	pager, err := newPager(req.Msg.GetPageSize(), req.Msg.GetPageToken())
	if err != nil {
		return nil, err
	}
	before := uint64(0)
	if pager.after != "" {
		if before, err = strconv.ParseUint(pager.after, 10, 64); err != nil || before == 0 {
			return nil, Error(CodeInvalidPageToken, "page_token %q is not one that this list returned; leave it empty to begin", req.Msg.GetPageToken())
		}
	}
	entries, err := s.Audit.Newest(ctx, before, pager.size+1)
	if err != nil {
		return nil, s.failed(ctx, "list actions", err)
	}
	out := new(calferryv1.ListAuditResponse)
	for i, entry := range entries {
		if i == pager.size {
			out.NextPageToken = pageToken(strconv.FormatUint(entries[i-1].Sequence, 10))
			break
		}
		out.Entries = append(out.Entries, entry.AuditEntry)
	}
	return connect.NewResponse(out), nil
}

// Roles keeps viewers from changing anything: they may call what lists, gets, watches and exports. A plan is for
// operators, because it sends a request to where the caller says.
func Roles() connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			if access.From(ctx).Role < access.Operator && !reads(request.Spec().Procedure) {
				return nil, Error(CodeViewer, "you may only read: ask an operator to do this")
			}
			return next(ctx, request)
		}
	})
}

func reads(procedure string) bool {
	verb := procedure[strings.LastIndexByte(procedure, '/')+1:]
	for _, prefix := range []string{"List", "Get", "Watch", "Export"} {
		if strings.HasPrefix(verb, prefix) {
			return true
		}
	}
	return false
}
