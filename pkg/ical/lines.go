package ical

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// MaxLine is the longest unfolded line that is kept, in bytes; of longer ones the beginning is read.
const MaxLine = 4 << 20

var byteOrderMark = []byte("\ufeff")

// lines turns bytes into unfolded lines of UTF-8 text.
type lines struct {
	source io.Reader
	buffer []byte
	// buffer[start:end] is read and not yet used.
	start, end int
	err        error

	line    []byte
	scratch []byte
	joined  []byte
	// number is the physical line that the unfolded line began at; physical counts those used.
	number, physical int
	cut              bool
	// longLines counts lines that were cut.
	longLines int
	// foreign counts lines that were no UTF-8.
	foreign int
}

func newLines(source io.Reader) *lines {
	l := &lines{source: source, buffer: make([]byte, 64<<10)}
	l.fill(4)
	head := l.buffer[:l.end]
	switch {
	case bytes.HasPrefix(head, byteOrderMark):
		l.start = len(byteOrderMark)
	case bytes.HasPrefix(head, []byte{0xFF, 0xFE}), bytes.HasPrefix(head, []byte{'B', 0}):
		l.recode(unicode.LittleEndian)
	case bytes.HasPrefix(head, []byte{0xFE, 0xFF}), bytes.HasPrefix(head, []byte{0, 'B'}):
		l.recode(unicode.BigEndian)
	}
	return l
}

// recode starts again from UTF-16.
func (l *lines) recode(order unicode.Endianness) {
	head := bytes.Clone(l.buffer[:l.end])
	source := io.MultiReader(bytes.NewReader(head), l.source)
	if l.err != nil && !errors.Is(l.err, io.EOF) {
		source = io.MultiReader(bytes.NewReader(head), failing{l.err})
	}
	l.source = unicode.UTF16(order, unicode.UseBOM).NewDecoder().Reader(source)
	l.start, l.end, l.err = 0, 0, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// fill reads until want bytes are there, the buffer is full, or the source ends.
func (l *lines) fill(want int) {
	if l.start > 0 {
		copy(l.buffer, l.buffer[l.start:l.end])
		l.end -= l.start
		l.start = 0
	}
	for idle := 0; l.end < want && l.end < len(l.buffer) && l.err == nil; {
		n, err := l.source.Read(l.buffer[l.end:])
		l.end += n
		l.err = err
		if n > 0 {
			idle = 0
		} else if idle++; idle > 100 {
			l.err = io.ErrNoProgress
		}
	}
}

// next is the next unfolded line, valid until the following call. At the end it returns the reader's error.
// Lines of vCalendar 1.0 that are quoted-printable go on after a "=" at their end.
func (l *lines) next() ([]byte, error) {
	line, err := l.unfolded()
	if err != nil || !softBreak(line) {
		return line, err
	}
	number, cut := l.number, l.cut
	l.joined = append(l.joined[:0], line...)
	for err == nil && len(l.joined) > 0 && l.joined[len(l.joined)-1] == '=' {
		l.joined = l.joined[:len(l.joined)-1]
		if line, err = l.unfolded(); err == nil {
			room := MaxLine - len(l.joined)
			cut = cut || l.cut || len(line) > room
			l.joined = append(l.joined, line[:min(len(line), room)]...)
		}
	}
	l.number, l.cut = number, cut
	return l.joined, nil
}

// softBreak reports whether a line is quoted-printable and goes on.
func softBreak(line []byte) bool {
	if len(line) == 0 || line[len(line)-1] != '=' {
		return false
	}
	head, _, _ := bytes.Cut(line, []byte{':'})
	return bytes.Contains(bytes.ToUpper(head), []byte("=QUOTED-PRINTABLE"))
}

// unfolded is the next line without its folds.
func (l *lines) unfolded() ([]byte, error) {
	if line := l.whole(); line != nil {
		return l.clean(line), nil
	}
	l.line, l.cut, l.number = l.line[:0], false, 0
	for {
		if l.number > 0 {
			// A fold continues the line; anything else begins the next one.
			for l.start == l.end && l.err == nil {
				l.fill(1)
			}
			if l.start == l.end {
				break
			}
			if c := l.buffer[l.start]; c != ' ' && c != '\t' && c != '\r' && c != '\n' {
				break
			}
			if c := l.buffer[l.start]; c == ' ' || c == '\t' {
				l.start++
			}
		}
		l.physical++
		if l.number == 0 {
			l.number = l.physical
		}
		if !l.physicalLine() {
			break
		}
		if len(l.line) == 0 {
			l.number = 0
		}
	}
	if len(l.line) == 0 && l.start == l.end && l.err != nil {
		return nil, l.err
	}
	if l.cut {
		l.longLines++
	}
	return l.clean(l.line), nil
}

// whole is the next line if it stands in the buffer as it is, as most do: not folded, not empty, and with
// the beginning of the next line behind it. Else it is nil, and nothing has happened.
func (l *lines) whole() []byte {
	chunk := l.buffer[l.start:l.end]
	feed := bytes.IndexByte(chunk, '\n')
	if feed < 0 || feed+1 >= len(chunk) {
		return nil
	}
	switch chunk[feed+1] {
	case ' ', '\t', '\r', '\n':
		return nil
	}
	line := chunk[:feed]
	if feed > 0 && line[feed-1] == '\r' {
		line = line[:feed-1]
	}
	if len(line) == 0 || bytes.IndexByte(line, '\r') >= 0 {
		return nil
	}
	l.start += feed + 1
	l.physical++
	l.number, l.cut = l.physical, false
	return line
}

// physicalLine appends one physical line without its end. It is false when the source ended in it.
func (l *lines) physicalLine() bool {
	for {
		chunk := l.buffer[l.start:l.end]
		length := bytes.IndexByte(chunk, '\n')
		feed := length >= 0
		if !feed {
			length = len(chunk)
		}
		if cr := bytes.IndexByte(chunk[:length], '\r'); cr >= 0 {
			// A lone CR ends a line as well (old Macintosh); with LF behind it, LF does.
			if cr+1 < len(chunk) || l.err != nil {
				l.keep(chunk[:cr])
				l.start += cr + 1
				if cr+1 < len(chunk) && chunk[cr+1] == '\n' {
					l.start++
				}
				return true
			}
			length = cr
			l.keep(chunk[:length])
			l.start += length
			l.fill(2)
			continue
		}
		l.keep(chunk[:length])
		l.start += length
		if feed {
			l.start++
			return true
		}
		if l.err != nil {
			return false
		}
		l.fill(len(l.buffer))
	}
}

// failed reports whether the source ended otherwise than with io.EOF.
func (l *lines) failed() bool { return l.err != nil && !errors.Is(l.err, io.EOF) }

func (l *lines) keep(b []byte) {
	if room := MaxLine - len(l.line); len(b) > room {
		b = b[:max(room, 0)]
		l.cut = true
	}
	l.line = append(l.line, b...)
}

// clean makes a line valid UTF-8 without NUL.
func (l *lines) clean(line []byte) []byte {
	if plain(line) {
		return line
	}
	if bytes.IndexByte(line, 0) >= 0 {
		line = bytes.ReplaceAll(line, []byte{0}, nil)
	}
	if utf8.Valid(line) {
		return line
	}
	l.foreign++
	out := l.scratch[:0]
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if r == utf8.RuneError && size == 1 {
			out = utf8.AppendRune(out, charmap.Windows1252.DecodeByte(line[0]))
		} else {
			out = append(out, line[:size]...)
		}
		line = line[size:]
	}
	l.scratch = out
	return out
}

// plain reports whether a line is ASCII without NUL, eight bytes at a time. False may be wrong, true is not.
func plain(line []byte) bool {
	const high, ones = 0x8080808080808080, 0x0101010101010101
	found := uint64(0)
	for len(line) >= 8 {
		word := binary.LittleEndian.Uint64(line)
		// A byte that is 0 borrows from the bit above it; so does none that is not.
		found |= word | (word - ones)
		line = line[8:]
	}
	for _, b := range line {
		found |= uint64(b) | (uint64(b) - 1)
	}
	return found&high == 0
}
