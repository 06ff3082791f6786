package api

import (
	"cmp"
	"encoding/base64"
	"iter"
	"strings"
)

const (
	defaultPage = 50
	maxPage     = 500
)

// pager cuts one page out of a list. Its token names the last item of the page before by position, so that changes
// between two pages neither repeat nor hide the other items.
type pager struct {
	size  int
	after string
}

// newPager reads a request's page_size, 50 when it is 0 and at most 500, and page_token.
func newPager(size uint32, token string) (pager, error) {
	p := pager{size: min(int(cmp.Or(size, defaultPage)), maxPage)}
	if token == "" {
		return p, nil
	}
	after, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || !strings.HasPrefix(string(after), pageMark) {
		return p, Error(CodeInvalidPageToken, "page_token %q is not one that a list returned; leave it empty to begin", token)
	}
	p.after = strings.TrimPrefix(string(after), pageMark)
	return p, nil
}

// pageMark tells tokens from other base64, and its versions apart.
const pageMark = "1:"

func pageToken(position string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(pageMark + position))
}

// cut takes one page from positions and items in ascending order of position, and the token of the next page, empty
// when there is none. It asks for no more items than it needs.
func cut[T any](p pager, items iter.Seq2[string, T]) (page []T, next string) {
	var last string
	for position, item := range items {
		if p.after != "" && position <= p.after {
			continue
		}
		if len(page) == p.size {
			return page, pageToken(last)
		}
		page, last = append(page, item), position
	}
	return page, ""
}

// positioned pairs items with their positions.
func positioned[T any](items []T, position func(T) string) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, item := range items {
			if !yield(position(item), item) {
				return
			}
		}
	}
}

// place is where a name stands in an alphabetic list.
func place(name, id string) string { return strings.ToLower(name) + "\x00" + id }
