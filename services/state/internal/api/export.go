package api

import (
	"context"

	"connectrpc.com/connect"

	calferryv1 "github.com/calferry/calferry/proto/gen/calferry/v1"
	"github.com/calferry/calferry/services/state/internal/export"
)

// ExportConfig writes all subscriptions, but those that are being removed, as a document without secrets.
func (s *Service) ExportConfig(ctx context.Context, _ *connect.Request[calferryv1.ExportConfigRequest]) (*connect.Response[calferryv1.ExportConfigResponse], error) {
	var kept []*calferryv1.Subscription
	for _, row := range s.Board.Rows() {
		if !removing(row.Subscription) {
			kept = append(kept, row.Subscription)
		}
	}
	text, err := export.Write(kept, s.accountName)
	if err != nil {
		return nil, s.failed(ctx, "export", err)
	}
	return connect.NewResponse(&calferryv1.ExportConfigResponse{Yaml: text}), nil
}

// accountName names an account by its address where only one has it, so that the document fits another installation.
func (s *Service) accountName(id string) string {
	email, same := "", 0
	accounts := s.Board.Accounts()
	for _, a := range accounts {
		if a.GetId() == id {
			email = a.GetEmail()
		}
	}
	for _, a := range accounts {
		if a.GetEmail() == email {
			same++
		}
	}
	if email == "" || same > 1 {
		return id
	}
	return email
}
