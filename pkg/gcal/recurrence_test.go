package gcal_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/api/googleapi"

	"github.com/calferry/calferry/pkg/gcal"
)

func TestRefusalsThatNameTheRecurrence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer googleapi.Error
		want   bool
	}{
		"the rule":    {googleapi.Error{Code: 400, Message: "Invalid recurrence rule."}, true},
		"its place":   {googleapi.Error{Code: 400, Message: "Invalid value", Body: `{"error":{"errors":[{"reason":"invalid","location":"recurrence[0]"}]}}`}, true},
		"the start":   {googleapi.Error{Code: 400, Message: "Invalid start time."}, false},
		"a throttle":  {googleapi.Error{Code: 403, Message: "recurrence", Errors: []googleapi.ErrorItem{{Reason: "rateLimitExceeded"}}}, false},
		"the caller":  {googleapi.Error{Code: 403, Message: "recurrence", Errors: []googleapi.ErrorItem{{Reason: "forbiddenForServiceAccounts"}}}, false},
		"its servers": {googleapi.Error{Code: 500, Message: "recurrence"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, gcal.Classify(&c.answer).NamesRecurrence())
		})
	}
}
