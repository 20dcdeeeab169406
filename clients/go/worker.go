package weir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand"
	"net/http"
	"os"
	"runtime/debug"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// The causes of a context of a handler that is done.
var (
	// ErrCancelled: the result is wanted no more. The execution was cancelled, or the step's timeout is over.
	ErrCancelled = errors.New("weir: the task was cancelled")
	// ErrLost: the worker could not renew its lease, or the node has given the task to another worker.
	ErrLost = errors.New("weir: the task was lost")
	// ErrStopped: the worker stops, and its grace is over. An error of the handler is not reported: another worker runs
	// the task again at once.
	ErrStopped = errors.New("weir: the worker stops")
)

// Task is one attempt of a step.
type Task struct {
	ID             string          `json:"task"`
	Execution      string          `json:"execution_id"`
	Workspace      string          `json:"workspace"`
	Step           string          `json:"step"`
	Handler        string          `json:"handler"`
	Attempt        int             `json:"attempt"`
	Fence          int64           `json:"fence"`
	IdempotencyKey string          `json:"idempotency_key"` // the same for each attempt of the step
	TimeoutUS      *int64          `json:"timeout_us"`      // until the timeout of the step, at the claim
	Traceparent    string          `json:"traceparent"`     // the trace context for what the handler calls; "" = none
	Input          json.RawMessage `json:"input"`

	progress *progress // nil: a task that no worker has claimed
	log      *taskLog
	worker   *Worker
}

// Log adds a line to the log of this attempt, for `weir logs`. It does not block. 64 KiB may wait for a node; of more the rest is
// left out, and the log has a line with its size.
func (t *Task) Log(line string) {
	if t.log != nil && t.log.add(line+"\n") {
		wake(t.worker.urgent)
	} else if t.log != nil {
		wake(t.worker.reports)
	}
}

// progressTextMax is the length in bytes of the text of a report. A node cuts it likewise, but a heartbeat with a text
// of megabytes would be refused, and the lease lost.
const progressTextMax = 200

// Progress shows how far the handler is, while it runs: a fraction from 0 to 1, NaN = unknown, and a text, "" = none,
// which is cut after 200 bytes. Each report replaces the one before. The next heartbeat carries it, after a second at the latest.
func (t *Task) Progress(fraction float64, text string) {
	if t.progress == nil {
		return
	}
	item := progressItem{Text: strings.ToValidUTF8(strings.ReplaceAll(cutText(text), "\x00", " "), "?")}
	if !math.IsNaN(fraction) {
		within := min(max(fraction, 0), 1)
		item.Fraction = &within
	}
	t.progress.set(item)
}

// cutText cuts before the first rune that does not end within the limit.
func cutText(text string) string {
	if len(text) <= progressTextMax {
		return text
	}
	end := progressTextMax
	for end > progressTextMax-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

type progressItem struct {
	Fraction *float64 `json:"fraction"`
	Text     string   `json:"text,omitempty"`
}

// progress is the last report of a handler. Any goroutine may use it.
type progress struct {
	lock     sync.Mutex
	item     progressItem
	number   int // of reports
	accepted int // the last one that the node has accepted
	reported chan struct{}
}

func (p *progress) set(item progressItem) {
	p.lock.Lock()
	p.item = item
	p.number++
	p.lock.Unlock()
	wake(p.reported)
}

// wake fills a channel of one place.
func wake(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// next returns the report that the node has not accepted, with its number; nil = none.
func (p *progress) next() (*progressItem, int) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.number == p.accepted {
		return nil, 0
	}
	item := p.item
	return &item, p.number
}

// accept notes that the node has the report of a number. 0: it has none, because it is another node.
func (p *progress) accept(number int) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.accepted = number
}

// Handler runs a task and returns its output, which becomes JSON. An error is retried by the policy of the step, unless it
// is made by Fail. The context is done when the task was cancelled or lost; then the handler should return soon.
type Handler func(ctx context.Context, task *Task) (output any, err error)

type failure struct {
	code   string
	text   string
	retry  bool
	after  time.Duration
	hasOwn bool
}

func (f *failure) Error() string { return f.text }

// Fail makes an error that no retry can mend. `code` is for programs, as "card_declined".
func Fail(code, text string) error { return &failure{code: code, text: text} }

// Retry makes an error with a code; the policy of the step decides about the retry.
func Retry(code, text string) error { return &failure{code: code, text: text, retry: true} }

// RetryAfter is Retry with a delay in place of the policy's.
func RetryAfter(delay time.Duration, code, text string) error {
	return &failure{code: code, text: text, retry: true, after: delay, hasOwn: true}
}

// WorkerOptions has a useful default for each field.
type WorkerOptions struct {
	Name  string // no other running worker has it; default: host, process and a random number
	Group string // executor group; default: that of the first node of the process
	Slots int    // tasks at once, 1 to 1000; 0 = 10
	// Grace is the time that handlers have after the end of the context of Run, until theirs are done, too. Default: no
	// limit.
	Grace time.Duration
	// Log gets the start of the worker, outages of nodes and failures of handlers. Default: slog.Default().
	Log *slog.Logger
}

// Worker claims tasks and runs their handlers.
type Worker struct {
	client   *Client
	options  WorkerOptions
	handlers map[string]Handler
	free     chan struct{} // one entry for each free slot

	lock    sync.Mutex
	home    int          // the node that the worker claims at
	known   map[int]bool // nodes that may know the worker
	running map[string]*run
	lease   time.Duration
	begun   chan struct{} // full: a task has begun, so that its lease is renewed in time
	reports chan struct{} // full: a handler has reported progress, or has written a line
	urgent  chan struct{} // full: half of the room for lines of a task is taken
	tasks   sync.WaitGroup
	silent  map[int]bool // nodes that have not answered their last heartbeat; each outage is logged once
}

// run is a task that the worker has.
type run struct {
	task   *Task
	cancel context.CancelCauseFunc
	timer  *time.Timer // loses the task with its lease, also while no node answers
	lost   atomic.Bool
	ended  atomic.Bool // the worker stops: a failure is none of the handler
	node   int         // that has accepted it last
}

func (r *run) lose() {
	r.lost.Store(true)
	r.cancel(ErrLost)
}

func (r *run) end() {
	r.ended.Store(true)
	r.cancel(ErrStopped)
}

// NewWorker makes a worker. Its handlers are added by Handle.
func NewWorker(client *Client, options WorkerOptions) *Worker {
	if options.Name == "" {
		host, _ := os.Hostname()
		options.Name = fmt.Sprintf("%.60s-%d-%08x", host, os.Getpid(), rand.Uint32())
	}
	if options.Slots == 0 {
		options.Slots = slotsDefault
	}
	if options.Log == nil {
		options.Log = slog.Default()
	}
	worker := &Worker{client: client, options: options, handlers: map[string]Handler{},
		free: make(chan struct{}, max(options.Slots, 0)), silent: map[int]bool{}, running: map[string]*run{}, known: map[int]bool{},
		lease: 10 * time.Second, begun: make(chan struct{}, 1), reports: make(chan struct{}, 1), urgent: make(chan struct{}, 1)}
	if len(client.urls) > 0 {
		worker.home = rand.Intn(len(client.urls))
	}
	for i := 0; i < options.Slots; i++ {
		worker.free <- struct{}{}
	}
	return worker
}

// Handle adds the handler of a name, as in `handler: NAME` of a step. Before Run. It panics when the name is empty or has a
// handler already, and when the handler is nil, as http.Handle does.
func (w *Worker) Handle(name string, handler Handler) {
	if name == "" {
		panic("weir: a handler has no name")
	}
	if handler == nil {
		panic(fmt.Sprintf("weir: the handler %q is nil", name))
	}
	if w.handlers[name] != nil {
		panic(fmt.Sprintf("weir: there are two handlers %q", name))
	}
	w.handlers[name] = handler
}

const (
	slotsDefault = 10
	slotsMax     = 1000

	claimWait  = 30 * time.Second
	pauseFirst = 50 * time.Millisecond
	pauseMost  = time.Second
	leaveTime  = 2 * time.Second
	// From a report of progress, or a line, to the heartbeat that carries it, with those that come meanwhile.
	progressDelay = time.Second
)

type claimRequest struct {
	Worker   string   `json:"worker"`
	Handlers []string `json:"handlers"`
	Max      int      `json:"max"`
	WaitUS   int64    `json:"wait_us"`
	Group    string   `json:"executor_group,omitempty"`
}

type claimAnswer struct {
	Tasks   []*Task `json:"tasks"`
	LeaseUS int64   `json:"lease_us"`
	// WaitedUS is the time from the request to the beginning of the leases.
	WaitedUS int64 `json:"waited_us"`
}

// Run works until the context is done. Then it claims nothing more, and returns when the handlers that run have returned
// and their results have been taken. When WorkerOptions.Grace is over, it asks the handlers to end. An error is a refusal
// that no repetition can mend.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.client.check(); err != nil {
		return err
	}
	if len(w.handlers) == 0 {
		return errors.New("weir: a worker needs a handler: call Handle before Run")
	}
	if w.options.Slots < 1 || w.options.Slots > slotsMax {
		return fmt.Errorf("weir: a worker has 1 to %d Slots, not %d", slotsMax, w.options.Slots)
	}
	beats, stop := context.WithCancel(context.Background())
	var beating sync.WaitGroup
	beating.Add(1)
	go func() {
		defer beating.Done()
		w.beat(beats)
	}()
	err := w.claimUntilDone(ctx)
	if w.options.Grace > 0 {
		grace := time.AfterFunc(w.options.Grace, w.endRuns)
		defer grace.Stop()
	}
	w.tasks.Wait()
	stop()
	beating.Wait()
	w.leave()
	return err
}

func (w *Worker) endRuns() {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, each := range w.running {
		each.end()
	}
}

// leave reports the end of the worker to all nodes at which it has claimed: other workers get the tasks without a result at
// once, also those of an answer to the last claim that was lost. A node that does not answer waits for the end of the leases.
func (w *Worker) leave() {
	within, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	var leaving sync.WaitGroup
	for node := range w.known {
		leaving.Add(1)
		go func(url string) {
			defer leaving.Done()
			body := map[string]any{"worker": w.options.Name}
			if _, err := w.client.call(within, http.MethodPost, url+"/v1/tasks:leave", body, nil, nil); err != nil {
				w.options.Log.Warn("weir: a node does not answer a leave", "node", url, "error", err)
			}
		}(w.client.urls[node])
	}
	leaving.Wait()
}

// takeSlots waits for a free slot, and takes all that are free.
func (w *Worker) takeSlots(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 0
	case <-w.free:
	}
	count := 1
	for ; count < w.options.Slots; count++ {
		select {
		case <-w.free:
			continue
		default:
		}
		break
	}
	return count
}

func (w *Worker) returnSlots(count int) {
	for i := 0; i < count; i++ {
		w.free <- struct{}{}
	}
}

func (w *Worker) claimUntilDone(ctx context.Context) error {
	pause := pauseFirst
	answered, failed := false, false // by the last claim
	for {
		slots := w.takeSlots(ctx)
		if slots == 0 || ctx.Err() != nil {
			w.returnSlots(slots)
			return nil
		}
		node := w.homeNode()
		sent := time.Now()
		wait := claimWait
		if !answered { // the answer comes at once
			wait = 0
		}
		answer, err := w.claim(ctx, node, slots, wait)
		if err != nil && ctx.Err() == nil {
			w.returnSlots(slots)
			if !isLater(err) {
				return err
			}
			if answered || !failed {
				w.options.Log.Warn("weir: a node does not answer a claim", "node", w.client.urls[node], "error", err)
			}
			answered, failed = false, true
			w.leaveNode(node)
			sleep(ctx, pause)
			pause = min(pause*2, pauseMost)
			continue
		}
		if err == nil && !answered {
			w.options.Log.Info("weir: the worker claims tasks", "worker", w.options.Name, "node", w.client.urls[node],
				"handlers", w.handlerNames(), "slots", w.options.Slots)
		}
		answered = err == nil
		pause = pauseFirst
		w.returnSlots(slots - len(answer.Tasks))
		for _, task := range answer.Tasks {
			lease := time.Duration(answer.LeaseUS) * time.Microsecond
			waited := time.Duration(answer.WaitedUS) * time.Microsecond
			w.begin(task, node, lease, sent.Add(waited+lease))
		}
	}
}

// claim also makes the worker known to the node. An answer that arrives after the end of the context is lost; the leases of
// its tasks end by themselves.
func (w *Worker) claim(ctx context.Context, node, slots int, wait time.Duration) (claimAnswer, error) {
	request := claimRequest{Worker: w.options.Name, Max: slots, WaitUS: wait.Microseconds(), Group: w.options.Group}
	request.Handlers = w.handlerNames()
	within, cancel := context.WithTimeout(ctx, wait+callTimeout)
	defer cancel()
	w.lock.Lock()
	w.known[node] = true
	w.lock.Unlock()
	var answer claimAnswer
	_, err := w.client.call(within, http.MethodPost, w.client.urls[node]+"/v1/tasks:claim", request, &answer, nil)
	return answer, err
}

func (w *Worker) handlerNames() []string {
	names := make([]string, 0, len(w.handlers))
	for name := range w.handlers {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func (w *Worker) homeNode() int {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.home
}

// leaveNode makes the next node the home, if the home is still `node`.
func (w *Worker) leaveNode(node int) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.home == node {
		w.home = (node + 1) % len(w.client.urls)
	}
}

func sleep(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}

// begin runs the handler of a task, whose lease ends at `ends` or a little later.
func (w *Worker) begin(task *Task, node int, lease time.Duration, ends time.Time) {
	ctx, cancel := context.WithCancelCause(context.Background())
	task.progress, task.log, task.worker = &progress{reported: w.reports}, &taskLog{}, w
	started := &run{task: task, cancel: cancel, node: node}
	started.timer = time.AfterFunc(time.Until(ends), started.lose)
	w.lock.Lock()
	w.lease = lease
	w.running[task.ID] = started
	w.lock.Unlock()
	wake(w.begun)
	w.tasks.Add(1)
	go func() {
		defer w.tasks.Done()
		if item := w.handle(ctx, task); item.verb == "complete" || !started.ended.Load() {
			w.report(started, item)
		}
		w.lock.Lock()
		delete(w.running, task.ID)
		w.lock.Unlock()
		started.timer.Stop()
		cancel(nil)
		w.returnSlots(1)
	}()
}

type reportItem struct {
	Task         string          `json:"task"`
	Output       json.RawMessage `json:"output,omitempty"`
	Code         string          `json:"error_code,omitempty"`
	Error        string          `json:"error,omitempty"`
	Retry        *bool           `json:"retry,omitempty"`
	RetryAfterUS *int64          `json:"retry_after_us,omitempty"`
	Progress     *progressItem   `json:"progress,omitempty"`
	Log          []logPart       `json:"log,omitempty"`
	LogAt        *int            `json:"log_at,omitempty"`
	verb         string
	reported     int // the number of the progress
}

func (i *reportItem) addLog(task *Task, isLast bool) {
	parts, at := task.log.next(isLast)
	i.Log, i.LogAt = nil, nil
	if len(parts) > 0 {
		i.Log, i.LogAt = parts, &at
	}
}

// handle calls the handler. A panic is an error of it.
func (w *Worker) handle(ctx context.Context, task *Task) (item reportItem) {
	defer func() {
		if caught := recover(); caught != nil {
			item = w.failed(ctx, task, Retry("handler_panicked", fmt.Sprint(caught)), "stack", string(debug.Stack()))
		}
	}()
	output, err := w.handlers[task.Handler](ctx, task)
	if err != nil {
		return w.failed(ctx, task, err)
	}
	text, err := json.Marshal(output)
	if err != nil {
		return w.failed(ctx, task, Fail("handler_bad_output", err.Error()))
	}
	return reportItem{Task: task.ID, Output: text, verb: "complete"}
}

// failed logs the failure of an attempt, unless its run was to stop.
func (w *Worker) failed(ctx context.Context, task *Task, err error, more ...any) reportItem {
	if ctx.Err() == nil {
		w.options.Log.Warn("weir: an attempt has failed", append([]any{"handler", task.Handler, "execution", task.Execution,
			"step", task.Step, "attempt", task.Attempt, "error", err}, more...)...)
	}
	return failureItem(task, err)
}

func failureItem(task *Task, err error) reportItem {
	item := reportItem{Task: task.ID, Error: err.Error(), verb: "fail"}
	var own *failure
	if errors.As(err, &own) {
		item.Code = own.code
		item.Retry = &own.retry
		if own.hasOwn {
			delay := own.after.Microseconds()
			item.RetryAfterUS = &delay
		}
	}
	return item
}

// isBadOutput reports whether the node can never take the output: it is too large, or no JSON of weir's.
func isBadOutput(err error) bool {
	var refusal *Error
	return errors.As(err, &refusal) &&
		(refusal.Status == http.StatusBadRequest || refusal.Status == http.StatusRequestEntityTooLarge)
}

// isDenied reports whether the node refuses the token. A token is replaced while workers run, and a result is worth the wait.
func isDenied(err error) bool {
	var refusal *Error
	return errors.As(err, &refusal) &&
		(refusal.Status == http.StatusUnauthorized || refusal.Status == http.StatusForbidden)
}

// report sends the result until a node has taken it, or the lease is over. An output that no node can take fails the step:
// without a report it would run again.
func (w *Worker) report(done *run, item reportItem) {
	for pause := pauseFirst; !done.lost.Load(); pause = min(pause*2, pauseMost) {
		item.addLog(done.task, true)
		results, err := w.send(context.Background(), w.nodeOf(done), item.verb, []reportItem{item})
		if err == nil && results[item.Task] != "task_unknown" {
			return
		}
		if item.verb == "complete" && isBadOutput(err) {
			w.options.Log.Error("weir: a node refuses an output", "task", item.Task, "error", err)
			item = failureItem(done.task, Fail("handler_bad_output", err.Error()))
			continue
		}
		if err != nil && !isLater(err) {
			w.options.Log.Error("weir: a node refuses a result", "task", item.Task, "error", err)
			if !isDenied(err) {
				return
			}
		}
		w.moveOn(done)
		time.Sleep(pause)
	}
}

func (w *Worker) nodeOf(task *run) int {
	w.lock.Lock()
	defer w.lock.Unlock()
	return task.node
}

// moveOn makes the next node the one that is asked for the task.
func (w *Worker) moveOn(task *run) {
	w.lock.Lock()
	defer w.lock.Unlock()
	task.node = (task.node + 1) % len(w.client.urls)
}

// send reports a set of tasks to one node, and returns the word for each.
func (w *Worker) send(ctx context.Context, node int, verb string, items []reportItem) (map[string]string, error) {
	var answer struct {
		Tasks []struct{ Task, Verdict string }
	}
	within, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body := map[string]any{"worker": w.options.Name, "tasks": items}
	_, err := w.client.call(within, http.MethodPost, w.client.urls[node]+"/v1/tasks:"+verb, body, &answer, nil)
	var refusal *Error
	if len(items) == 1 && errors.As(err, &refusal) && (refusal.Code == "task_lost" || refusal.Code == "task_unknown") {
		return map[string]string{items[0].Task: refusal.Code}, nil
	}
	results := map[string]string{}
	for _, task := range answer.Tasks {
		results[task.Task] = task.Verdict
	}
	return results, err
}

// beat renews the leases, three times in each. A task that its node does not know, or whose node does not answer, is
// offered to the other nodes more often: one of them may have taken its execution over.
func (w *Worker) beat(ctx context.Context) {
	for ctx.Err() == nil {
		all := w.beatOnce(ctx)
		w.lock.Lock()
		pause, count := w.lease/3, len(w.running)
		w.lock.Unlock()
		if count == 0 {
			select {
			case <-ctx.Done():
			case <-w.begun: // a task whose lease is a new one
			}
			continue
		}
		if !all {
			pause = min(pause, pauseMost) / 4
		}
		w.rest(ctx, pause)
	}
}

// rest waits for the next heartbeat. One with progress or lines comes sooner.
func (w *Worker) rest(ctx context.Context, pause time.Duration) {
	end := time.After(pause)
	select {
	case <-ctx.Done():
	case <-end:
	case <-w.urgent:
	case <-w.reports:
		select {
		case <-ctx.Done():
		case <-end:
		case <-w.urgent:
		case <-time.After(progressDelay):
		}
	}
}

// beatOnce returns whether all leases were renewed.
func (w *Worker) beatOnce(ctx context.Context) bool {
	w.lock.Lock()
	nodes := map[int][]reportItem{}
	carried := map[int]int{} // bytes of lines
	more := false            // the next heartbeat has further lines
	for _, task := range w.running {
		item := reportItem{Task: task.task.ID}
		item.Progress, item.reported = task.task.progress.next()
		if carried[task.node] < logBytesOfHeartbeat {
			item.addLog(task.task, false)
			carried[task.node] += logBytes(item.Log)
		} else {
			more = true
		}
		nodes[task.node] = append(nodes[task.node], item)
	}
	lease := w.lease
	w.lock.Unlock()
	all := true
	for node, items := range nodes {
		within, cancel := context.WithTimeout(ctx, lease/3)
		sent := time.Now()
		results, err := w.send(within, node, "heartbeat", items)
		cancel()
		if err != nil {
			if !w.silent[node] {
				w.options.Log.Warn("weir: a node does not answer a heartbeat", "node", w.client.urls[node], "error", err)
			}
			w.leaveNode(node)
		}
		w.silent[node] = err != nil
		all = w.takeResults(items, results, sent.Add(lease)) && all
	}
	if !all {
		// The node that takes the executions over must have the handlers: it learns them by a claim of nothing.
		_, _ = w.claim(ctx, w.homeNode(), 0, 0)
	} else if more {
		wake(w.urgent)
	}
	return all
}

func (w *Worker) takeResults(items []reportItem, results map[string]string, ends time.Time) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	all := true
	for _, item := range items {
		task := w.running[item.Task]
		if task == nil {
			continue // it has ended meanwhile
		}
		verdict := results[item.Task]
		if verdict == "accepted" || verdict == "cancelled" {
			if item.Progress != nil {
				task.task.progress.accept(item.reported)
			}
			if item.LogAt != nil {
				task.task.log.accept(*item.LogAt + logBytes(item.Log))
			}
		}
		switch verdict {
		case "accepted":
			task.timer.Reset(time.Until(ends))
		case "cancelled":
			task.timer.Reset(time.Until(ends))
			task.cancel(ErrCancelled)
		case "task_lost":
			task.lose()
		default:
			all = false
			task.task.progress.accept(0)
			task.node = (task.node + 1) % len(w.client.urls)
		}
	}
	return all
}
