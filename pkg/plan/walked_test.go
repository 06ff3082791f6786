package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A series with as many changed instances as are planned leaves enough effort for the other series of its feed, also when
// each look into its rule begins at its start.
func TestManyChangedInstancesLeaveEffortForOthers(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"FREQ=DAILY;COUNT=5000", "FREQ=MONTHLY;BYMONTHDAY=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			start := time.Date(2016, 1, 1, 9, 0, 0, 0, time.UTC)
			var b strings.Builder
			fmt.Fprintf(&b, "UID:1\nDTSTART:%sZ\nDURATION:PT1H\nSUMMARY:s\nRRULE:%s\n\n", start.Format("20060102T150405"), rule)
			changed := 0
			for at := start; changed < 2000; at = at.AddDate(0, 0, 1) {
				if at.Day() > 15 {
					continue
				}
				changed++
				fmt.Fprintf(&b, "UID:1\nRECURRENCE-ID:%[1]sZ\nDTSTART:%[1]sZ\nSUMMARY:x\n\n", at.Format("20060102T150405"))
			}
			b.WriteString("UID:2\nDTSTART:20260301T090000Z\nRRULE:FREQ=DAILY;BYHOUR=9,15")
			p := desire(t, settings(), b.String())
			require.Zero(t, p.Skipped, p.Warnings())
			require.Contains(t, keys(p), "2")
		})
	}
}
