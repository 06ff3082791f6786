package plan_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/calferry/calferry/pkg/plan"
)

// TestFeeds reads every .ics in the folder that CALFERRY_TEST_FEEDS names: real feeds, kept outside of the
// repository. No event may be lost against a naive count, and a second sync has nothing to do.
func TestFeeds(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("CALFERRY_TEST_FEEDS")
	if folder == "" {
		t.Log("CALFERRY_TEST_FEEDS is not set: no real feed was read")
		return
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.ics"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "no .ics file in CALFERRY_TEST_FEEDS")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			naive := 0
			for line := range strings.Lines(string(data)) {
				if strings.EqualFold(strings.TrimSpace(line), "BEGIN:VEVENT") {
					naive++
				}
			}
			s := settings()
			p, err := plan.Desired(strings.NewReader(string(data)), s)
			require.NoError(t, err)
			require.Equal(t, plan.Apply, p.Action)
			require.True(t, p.Complete)
			require.Equal(t, naive, p.Read)
			require.Zero(t, p.Skipped, p.Notes)
			if known, ok := feedSums[filepath.Base(file)]; ok && known.of == hex.EncodeToString(sha(data)) {
				require.Len(t, p.Events, known.events)
				require.Equal(t, known.plan, hex.EncodeToString(planSum(p)), "the feed maps to other bodies: raise MappingVersion, see that they are better, and note the new sum")
			}
			for i := range p.Events {
				checkBody(t, &p.Events[i].Body)
			}
			t.Logf("%q: {%q, %d, %q},", filepath.Base(file), hex.EncodeToString(sha(data)), len(p.Events), hex.EncodeToString(planSum(p)))
			w := newWorld()
			w.apply(plan.Diff(p, w.view(), s).Changes, func() outcome { return done })
			require.Equal(t, len(p.Events), w.requests)
			require.Empty(t, plan.Diff(p, w.view(), s).Changes)
		})
	}
}

// feedSums are what some real feeds came to, by file name: what the file must be for the entry to apply (its
// SHA-256), how many events it gives, and the sum of its plan. The feeds themselves are not ours to keep here.
var feedSums = map[string]struct {
	of     string
	events int
	plan   string
}{
	"calendarlabs-us-holidays.ics":           {"f0eb551999cdb6a8754de825c2727cb175cf087081a68b397228722d2b02ff09", 27, "9196973ced36590b013d41f84646a36e579f09cecffa91cc16cf94fa70fd427b"},
	"google-us-holidays.ics":                 {"1433713d358c513aec5bcc1a04606dc668de85e548583ec268cc5a473804709e", 317, "9cffe92e314ef627aef3921563c2d01111161a6800f76fe05e00deec04866104"},
	"govuk-bank-holidays-england-wales.ics":  {"d4b88efaa6d6e28341e97f49b116ecebabe65ba346bdd3a2f776671f078e46d8", 83, "42eb9e490b711b2a46d916b5e03904e9d76076e389ae61e459f0e21321bdead3"},
	"hebcal-geoname-3448439.ics":             {"87037c643e4ed0c01f46367b5cece111e7ca04c1a6616082e66b1013851bb57f", 270, "168726fe36eacdc7945158530c5b28ce5c4fbf6ba3667262b58cd1bc6f895945"},
	"meetup-torontojs.ics":                   {"7672af4234c474b3895f71ed8fb63b31b21341bf3b0c60090e7d4f0641405435", 1, "32d98afb95a413e81dd81b742f63be4e62211faa9fca171c5e0d2905f8a11787"},
	"outlook-exchange-windows-timezones.ics": {"c294e1714eb7637f8f1f5102ed9a2469028dcf1b2eb969610f0afdbf8d58870f", 3, "3ff62124dc21e9e66f4d92852be6288d04e9538cc351579167947c3a8fc8a406"},
	"stanford-featured-events.ics":           {"313eeb51ccfab8b3bd08fe9005163044637227df13a2f7cf1f6212df300ba615", 2500, "d490f8a086594eed8f88a6c6b25b48897e579ef5e37143ca92e0d02844d02747"},
}

func sha(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

// planSum is a sum over keys and bodies, in the order of the keys.
func planSum(p *plan.Plan) []byte {
	lines := make([]string, 0, len(p.Events))
	for i := range p.Events {
		lines = append(lines, p.Events[i].Key+" "+hex.EncodeToString(p.Events[i].Body.ContentHash()))
	}
	slices.Sort(lines)
	return sha([]byte(strings.Join(lines, "\n")))
}
