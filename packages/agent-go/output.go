package main

import (
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"
)

const tailBytes = 2 << 10

// tail passes output through unchanged and keeps its end, for the reason of a failure.
type tail struct {
	mutex sync.Mutex
	kept  []byte
	left  sync.WaitGroup
}

// copy passes on everything that the pipe delivers, until its last writer closes it.
func (t *tail) copy(to *os.File, from *os.File) {
	t.left.Add(1)
	go func() {
		defer t.left.Done()
		defer from.Close()
		_, _ = io.Copy(&tee{to: to, tail: t}, from)
	}()
}

// done returns a channel that is closed when all output was copied.
func (t *tail) done() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		t.left.Wait()
		close(done)
	}()
	return done
}

// lines returns the last lines, at most `limit` characters.
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

type tee struct {
	to   *os.File
	tail *tail
}

// Write never fails: a reader of the container's output that is gone must not stop the command.
func (t *tee) Write(data []byte) (int, error) {
	_, _ = t.to.Write(data)
	t.tail.mutex.Lock()
	defer t.tail.mutex.Unlock()
	kept := append(t.tail.kept, data...)
	t.tail.kept = append([]byte{}, kept[max(0, len(kept)-tailBytes):]...)
	return len(data), nil
}
