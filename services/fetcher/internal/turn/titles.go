package turn

import (
	"fmt"

	"github.com/calferry/calferry/pkg/plan"
)

// maxTitle is how much of a title is kept for people who read ledgers and holds, in characters.
const maxTitle = 60

// sealTitles puts the titles of a delta into its changes, readable with the feed key alone.
func (t *turn) sealTitles(delta *plan.Delta) error {
	context := []byte("title:" + t.id)
	for _, c := range delta.Changes {
		title, ok := delta.Titles[c.GetKey()]
		if !ok || title == "" {
			continue
		}
		sealed, err := t.FeedKey.Seal([]byte(shorten(title)), context)
		if err != nil {
			return fmt.Errorf("seal a title of subscription %s: %w", t.id, err)
		}
		c.SealedTitle = sealed
	}
	return nil
}

func shorten(title string) string {
	n := 0
	for i := range title {
		if n == maxTitle {
			return title[:i] + "…"
		}
		n++
	}
	return title
}
