package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAbout(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "a moment", 9400 * time.Millisecond: "about 9 s", 89 * time.Second: "about 89 s", 5 * time.Minute: "about 5 min",
		3 * time.Hour: "about 3 h", 72 * time.Hour: "about 3 days",
	} {
		require.Equal(t, want, about(d))
	}
}
