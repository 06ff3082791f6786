package gcalsim_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"google.golang.org/api/calendar/v3"
	"google.golang.org/api/option"

	"github.com/calferry/calferry/pkg/gcalsim"
)

func Example() {
	sim := gcalsim.New(gcalsim.Config{})
	server := httptest.NewServer(sim)
	defer server.Close()
	defer sim.Close()
	if err := sim.AddCalendar("team@example.com", "Europe/Berlin"); err != nil {
		fmt.Println(err)
		return
	}
	sim.AcceptToken("secret", gcalsim.DefaultAccount)
	sim.SetQuota("team@example.com", gcalsim.TokenBucket{Rate: 1.0 / 3600, Burst: 1})
	sim.Fail(gcalsim.Rule{
		Match: gcalsim.Match{Ops: []gcalsim.Op{gcalsim.OpInsert}}, Fault: gcalsim.FaultBackend, After: true, Times: 1,
	})

	ctx := context.Background()
	api, err := calendar.NewService(ctx, option.WithEndpoint(server.URL+"/calendar/v3/"), option.WithHTTPClient(bearer("secret")))
	if err != nil {
		fmt.Println(err)
		return
	}
	holiday := &calendar.Event{
		Id: "hol01", Summary: "Holiday", Start: &calendar.EventDateTime{Date: "2026-05-01"}, End: &calendar.EventDateTime{Date: "2026-05-02"},
	}
	for range 2 {
		_, err = api.Events.Insert("team@example.com", holiday).Do()
		fmt.Println(err)
	}
	fmt.Println(len(sim.Events("team@example.com")), "event")
	for _, r := range sim.Log() {
		fmt.Println(r.Op, r.EventID, r.Status, "throttled:", r.Throttled, "applied:", r.Applied)
	}
	// Output:
	// googleapi: Error 500: Backend Error, backendError
	// googleapi: Error 403: Rate Limit Exceeded, rateLimitExceeded
	// 1 event
	// insert hol01 500 throttled: false applied: true
	// insert hol01 403 throttled: true applied: false
}
