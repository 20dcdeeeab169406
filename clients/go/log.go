package weir

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// A task keeps as much output that no node has accepted yet.
	logBytesMax = 64 << 10
	// A node takes one part more of a request, which is the line about losses.
	logPartsMax = 999
	// Of all tasks in one heartbeat. A node refuses one of more than 4 MiB, and control characters take six bytes in JSON.
	logBytesOfHeartbeat = 512 << 10
)

type logPart struct {
	Text string `json:"text"`
}

// taskLog has the lines of a task that no node has accepted yet. Each request about the task carries them, with their place
// in the log, so that a node writes a line once that comes twice. Any goroutine may use it.
type taskLog struct {
	lock     sync.Mutex
	parts    []logPart
	at       int // bytes that were accepted
	bytes    int // of the parts
	lost     int // bytes for which there was no room
	isUrgent bool
}

// add adds text, and returns whether half of the room is taken now. The text for which there is no room is left out, and
// counted.
func (l *taskLog) add(text string) (urgent bool) {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.lost > 0 && !l.isHalfFull() {
		l.addLoss()
	}
	kept := min(logBytesMax-l.bytes, len(text))
	if l.lost > 0 || len(l.parts) >= logPartsMax {
		kept = 0
	}
	for kept > 0 && kept < len(text) && !utf8.RuneStart(text[kept]) {
		kept--
	}
	if kept > 0 {
		l.put(text[:kept])
	}
	l.lost += len(text) - kept
	urgent = !l.isUrgent && l.isHalfFull()
	l.isUrgent = l.isUrgent || urgent
	return urgent
}

func (l *taskLog) isHalfFull() bool {
	return l.bytes >= logBytesMax/2 || len(l.parts) >= logPartsMax/2
}

func (l *taskLog) addLoss() {
	l.put(fmt.Sprintf("... %d bytes are left out ...\n", l.lost))
	l.lost = 0
}

func (l *taskLog) put(text string) {
	l.parts = append(l.parts, logPart{text})
	l.bytes += len(text)
}

// next returns the lines with their place, for a request. isLast: the task has ended.
func (l *taskLog) next(isLast bool) (parts []logPart, at int) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if isLast && l.lost > 0 {
		l.addLoss()
	}
	return append([]logPart(nil), l.parts...), l.at
}

// accept drops the parts before the place `end`, which a node has accepted.
func (l *taskLog) accept(end int) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for len(l.parts) > 0 && l.at+len(l.parts[0].Text) <= end {
		l.at += len(l.parts[0].Text)
		l.bytes -= len(l.parts[0].Text)
		l.parts = l.parts[1:]
	}
	l.isUrgent = l.isUrgent && l.isHalfFull()
}

func logBytes(parts []logPart) int {
	bytes := 0
	for _, part := range parts {
		bytes += len(part.Text)
	}
	return bytes
}
