package main

import (
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"
)

const tailBytes = 4 << 10

// output passes the streams of the command through unchanged and keeps the end of each, for the reason
// of a failure.
type output struct {
	tails   []*tail
	writers []*os.File // the command's ends of the pipes
	left    sync.WaitGroup
}

// newOutput creates the pipes. Streams that go to one place share a pipe, which keeps their order.
func newOutput() (*output, error) {
	created := &output{}
	if err := created.add(os.Stdout); err != nil {
		return nil, err
	}
	first, err := os.Stdout.Stat()
	second, secondErr := os.Stderr.Stat()
	if err == nil && secondErr == nil && os.SameFile(first, second) {
		return created, nil
	}
	return created, created.add(os.Stderr)
}

func (o *output) add(to *os.File) error {
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	kept := &tail{to: to}
	o.tails = append(o.tails, kept)
	o.writers = append(o.writers, writer)
	o.left.Add(1)
	go func() {
		defer o.left.Done()
		defer reader.Close()
		_, _ = io.Copy(kept, reader)
	}()
	return nil
}

// files returns the descriptors of the command: input, output, errors.
func (o *output) files() []uintptr {
	last := o.writers[len(o.writers)-1]
	return []uintptr{0, o.writers[0].Fd(), last.Fd()}
}

// closeWriters leaves the pipes to the command, so that they end with it.
func (o *output) closeWriters() {
	for _, each := range o.writers {
		each.Close()
	}
}

// done returns a channel that is closed when all output was copied.
func (o *output) done() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		o.left.Wait()
		close(done)
	}()
	return done
}

// lines returns the last lines, at most `limit` characters. Errors come last and have half of the room
// at least, so that a talkative program does not hide them.
func (o *output) lines(limit int) string {
	text := ""
	for i := len(o.tails) - 1; i >= 0; i-- {
		room := limit - utf8.RuneCountInString(text)
		if i > 0 && o.tails[0].lines(limit) != "" {
			room = limit / 2
		}
		text = strings.TrimSpace(o.tails[i].lines(room-1) + "\n" + text)
	}
	return text
}

// tail writes to one stream and keeps its end.
type tail struct {
	to    *os.File
	mutex sync.Mutex
	kept  []byte
}

// Write never fails: a reader of the container's output that is gone must not stop the command.
func (t *tail) Write(data []byte) (int, error) {
	_, _ = t.to.Write(data)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	kept := append(t.kept, data...)
	t.kept = append([]byte{}, kept[max(0, len(kept)-tailBytes):]...)
	return len(data), nil
}

// lines returns whole lines from the end, at most `limit` characters, or the end of a long line.
func (t *tail) lines(limit int) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	text := strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(string(t.kept), "?"), "\x00", ""))
	for utf8.RuneCountInString(text) > limit {
		_, rest, found := strings.Cut(text, "\n")
		if !found {
			runes := []rune(text)
			return string(runes[len(runes)-limit:])
		}
		text = rest
	}
	return text
}
