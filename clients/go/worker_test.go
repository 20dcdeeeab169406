package weir_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	weir "weir.dev/go"
)

const mostTime = 90 * time.Second

// node is a real node in a folder of its own. WEIR_BINARY names the program.
type node struct {
	t       *testing.T
	folder  string
	address string
	process *exec.Cmd
}

func binary(t *testing.T) string {
	path := os.Getenv("WEIR_BINARY")
	if path == "" {
		path = filepath.Join("..", "..", "build", "weir")
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("WEIR_BINARY must name the program weir: %v", err)
	}
	return path
}

// startNode starts a node with leases that no loaded machine ends.
func startNode(t *testing.T) *node { return startNodeWithLease(t, "30s") }

func startNodeWithLease(t *testing.T, lease string) *node {
	n := &node{t: t, folder: t.TempDir(), address: "127.0.0.1:0"}
	n.write("weir.yaml", "http.task_lease: "+lease+"\n")
	n.run("store", "init", "-q")
	n.run("workspace", "set", "acme", "--plan", "pro", "-q")
	n.start()
	t.Cleanup(func() { n.end(syscall.SIGKILL) })
	return n
}

func (n *node) write(name, text string) string {
	path := filepath.Join(n.folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return path
}

func (n *node) command(words ...string) *exec.Cmd {
	command := exec.Command(binary(n.t), words...)
	command.Dir = n.folder
	command.Env = []string{"HOME=" + n.folder, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
	return command
}

func (n *node) run(words ...string) string {
	out, err := n.command(words...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("weir %v: %v\n%s", words, err, out)
	}
	return string(out)
}

var addressLine = regexp.MustCompile(`http at (\S+?)[,:]? `)

// start also starts a killed node again, at its former address.
func (n *node) start() {
	n.process = n.command("serve", "--listen", n.address)
	errors, err := n.process.StderrPipe()
	if err == nil {
		err = n.process.Start()
	}
	if err != nil {
		n.t.Fatal(err)
	}
	lines := bufio.NewScanner(errors)
	for lines.Scan() {
		if found := addressLine.FindStringSubmatch(lines.Text() + " "); found != nil {
			n.address = strings.TrimSuffix(found[1], ":")
			go func() {
				for lines.Scan() { // the node must not wait for a reader
				}
			}()
			return
		}
	}
	n.t.Fatal("the node does not listen")
}

func (n *node) end(signal syscall.Signal) {
	_ = n.process.Process.Signal(signal)
	_ = n.process.Wait()
}

func (n *node) url() string { return "http://" + n.address }

func (n *node) apply(name string, step map[string]any) {
	text, err := json.Marshal(map[string]any{"name": name, "steps": map[string]any{"only": step}})
	if err != nil {
		n.t.Fatal(err)
	}
	n.run("workflow", "apply", n.write(name+".yaml", string(text)), "-q")
}

// startWorker runs the worker until the end of the test, or until the returned function is called.
func startWorker(t *testing.T, client *weir.Client, handlers map[string]weir.Handler) func() {
	return startWorkerWithGrace(t, client, handlers, 0)
}

func startWorkerWithGrace(t *testing.T, client *weir.Client, handlers map[string]weir.Handler, grace time.Duration) func() {
	worker := weir.NewWorker(client, weir.WorkerOptions{Slots: 4, Grace: grace})
	for name, handler := range handlers {
		worker.Handle(name, handler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	stop := func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			ended <- nil
		case <-time.After(mostTime):
			t.Error("the worker does not end")
		}
	}
	t.Cleanup(stop)
	return stop
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), mostTime)
	t.Cleanup(cancel)
	return ctx
}

func enqueue(t *testing.T, client *weir.Client, workflow string, params any) string {
	id, _, err := client.Enqueue(within(t), weir.Enqueue{Workspace: "acme", Workflow: workflow, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func wait(t *testing.T, client *weir.Client, id string) *weir.Execution {
	execution, err := client.Wait(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return execution
}

// --- the cases of all clients ---

type caseFile struct {
	Cases []struct {
		Name     string
		Workflow map[string]any
		Cancel   bool
		Stop     bool
		Progress json.RawMessage
		Acts     []map[string]json.RawMessage
		Expect   map[string]any
	}
}

func reportProgress(task *weir.Task, value json.RawMessage) {
	var report struct {
		Fraction *float64
		Text     string
		Repeat   int
	}
	_ = json.Unmarshal(value, &report)
	fraction := math.NaN()
	if report.Fraction != nil {
		fraction = *report.Fraction
	}
	task.Progress(fraction, strings.Repeat(report.Text, max(report.Repeat, 1)))
}

// awaitProgress waits until the execution shows the report, and no other one.
func (n *node) awaitProgress(id string, report json.RawMessage) {
	type shown struct {
		Fraction *float64 `json:"fraction"`
		Text     *string  `json:"text"`
	}
	var wanted shown
	_ = json.Unmarshal(report, &wanted)
	want, _ := json.Marshal([]shown{wanted})
	var got []byte
	for end := time.Now().Add(mostTime); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var execution struct{ Progress []shown }
		if err := json.Unmarshal([]byte(n.run("show", id, "--json")), &execution); err != nil {
			n.t.Fatal(err)
		}
		got, _ = json.Marshal(execution.Progress)
		if string(got) == string(want) {
			return
		}
	}
	n.t.Fatalf("it shows %s, not %s", got, want)
}

func scripted(begun chan struct{}) weir.Handler {
	return func(ctx context.Context, task *weir.Task) (any, error) {
		var input struct{ Acts []map[string]json.RawMessage }
		if err := json.Unmarshal(task.Input, &input); err != nil {
			return nil, err
		}
		begun <- struct{}{}
		for act, value := range input.Acts[min(task.Attempt, len(input.Acts))-1] {
			var answer struct {
				Code, Error string
				AfterUS     *int64 `json:"after_us"`
			}
			_ = json.Unmarshal(value, &answer) // other acts have other values
			switch act {
			case "complete":
				return value, nil
			case "raise":
				return nil, errors.New(string(value))
			case "fail":
				return nil, weir.Fail(answer.Code, answer.Error)
			case "retry":
				if answer.AfterUS != nil {
					return nil, weir.RetryAfter(time.Duration(*answer.AfterUS)*time.Microsecond, answer.Code, answer.Error)
				}
				return nil, weir.Retry(answer.Code, answer.Error)
			case "report_progress", "await_cancel":
				if act == "report_progress" {
					reportProgress(task, value)
				}
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), weir.ErrCancelled) {
					return nil, fmt.Errorf("the cause is %w", context.Cause(ctx))
				}
				return nil, nil
			case "await_stop":
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
		}
		return nil, weir.Fail("unknown_act", "the case has an act that this client does not know")
	}
}

func TestCases(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "tests", "workers", "cases.json"))
	var file caseFile
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil || len(file.Cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	n := startNode(t)
	client := weir.New(n.url())
	begun := make(chan struct{}, 100)
	handlers := map[string]weir.Handler{"scripted": scripted(begun)}
	stop := startWorkerWithGrace(t, client, handlers, time.Millisecond)
	all := t // the worker of a later case lives longer than the case that starts it
	for number, each := range file.Cases {
		t.Run(each.Name, func(t *testing.T) {
			for len(begun) > 0 {
				<-begun
			}
			step := map[string]any{"handler": "scripted"}
			for key, value := range each.Workflow {
				step[key] = value
			}
			workflow := fmt.Sprintf("case-%d", number)
			n.apply(workflow, step)
			id := enqueue(t, client, workflow, map[string]any{"acts": each.Acts})
			if each.Progress != nil {
				n.awaitProgress(id, each.Progress)
			}
			if each.Cancel {
				<-begun
				n.run("cancel", id, "-q")
			}
			stopped := time.Now()
			if each.Stop {
				<-begun
				stop()
				stop = startWorkerWithGrace(all, client, handlers, time.Millisecond)
			}
			execution := wait(t, client, id)
			if each.Stop && time.Since(stopped) > 20*time.Second {
				t.Errorf("the step ran again after %v", time.Since(stopped))
			}
			var steps []map[string]any
			if err := json.Unmarshal(execution.Steps, &steps); err != nil || len(steps) != 1 {
				t.Fatalf("%v: %s", err, execution.Steps)
			}
			steps[0]["status"] = execution.Status
			for key, value := range each.Expect {
				want, _ := json.Marshal(value)
				got, _ := json.Marshal(steps[0][key])
				if string(want) != string(got) {
					t.Errorf("%s is %s, not %s: %s", key, got, want, execution.Steps)
				}
			}
		})
	}
}

// --- faults ---

func TestWorkerKeepsItsRunWhenTheNodeDies(t *testing.T) {
	n := startNodeWithLease(t, "5m")
	n.apply("job", map[string]any{"handler": "job"})
	client := weir.New(n.url())
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	var runs atomic.Int32
	startWorker(t, client, map[string]weir.Handler{"job": func(ctx context.Context, _ *weir.Task) (any, error) {
		runs.Add(1)
		begun <- struct{}{}
		select {
		case <-goOn:
			return "kept", nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}})
	id := enqueue(t, client, "job", nil)
	<-begun
	n.end(syscall.SIGKILL)
	n.start()
	for !strings.Contains(n.run("show", id, "--json"), `"event":"step_start"`) { // the node has it again
		time.Sleep(50 * time.Millisecond)
	}
	close(goOn)
	execution := wait(t, client, id)
	if execution.Status != "COMPLETED" || !strings.Contains(string(execution.Steps), `"kept"`) || runs.Load() != 1 {
		t.Errorf("%d runs: %+v %s", runs.Load(), execution, execution.Steps)
	}
}

func TestWorkerLosesItsRunWithTheLease(t *testing.T) {
	n := startNodeWithLease(t, "3s")
	n.apply("job", map[string]any{"handler": "job"})
	client := weir.New(n.url())
	begun, ended := make(chan struct{}, 10), make(chan error, 10)
	startWorker(t, client, map[string]weir.Handler{"job": func(ctx context.Context, _ *weir.Task) (any, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}})
	enqueue(t, client, "job", nil)
	<-begun
	n.end(syscall.SIGKILL)
	if cause := <-ended; !errors.Is(cause, weir.ErrLost) {
		t.Errorf("the cause is %v", cause)
	}
}

func TestStoppedWorkerDeliversItsResults(t *testing.T) {
	n := startNode(t)
	n.apply("job", map[string]any{"handler": "job"})
	client := weir.New(n.url())
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	stop := startWorker(t, client, map[string]weir.Handler{"job": func(context.Context, *weir.Task) (any, error) {
		begun <- struct{}{}
		<-goOn
		return 1, nil
	}})
	id := enqueue(t, client, "job", nil)
	<-begun
	go close(goOn)
	stop()
	if execution := wait(t, client, id); execution.Status != "COMPLETED" {
		t.Errorf("%+v", execution)
	}
}

func TestTaskHasTheTraceOfItsRequest(t *testing.T) {
	n := startNode(t)
	n.apply("job", map[string]any{"handler": "job"})
	client := weir.New(n.url())
	startWorker(t, client, map[string]weir.Handler{"job": func(_ context.Context, task *weir.Task) (any, error) {
		return task.Traceparent, nil
	}})
	trace := "4bf92f3577b34da6a3ce929d0e0e4736"
	id, _, err := client.Enqueue(within(t), weir.Enqueue{Workspace: "acme", Workflow: "job",
		Traceparent: "00-" + trace + "-00f067aa0ba902b7-01"})
	if err != nil {
		t.Fatal(err)
	}
	if execution := wait(t, client, id); !strings.Contains(string(execution.Steps), trace) {
		t.Errorf("%s", execution.Steps)
	}
}

func TestPanicIsAnErrorOfTheHandler(t *testing.T) {
	n := startNode(t)
	n.apply("job", map[string]any{"handler": "job", "retry": map[string]any{"attempts": 1}})
	client := weir.New(n.url())
	startWorker(t, client, map[string]weir.Handler{"job": func(context.Context, *weir.Task) (any, error) { panic("no") }})
	execution := wait(t, client, enqueue(t, client, "job", nil))
	if execution.Status != "FAILED" || execution.ErrorCode != "handler_panicked" || execution.Error != "no" {
		t.Errorf("%+v", execution)
	}
}

func TestOutputThatTheNodeRefusesFailsTheStep(t *testing.T) {
	n := startNode(t)
	n.apply("large", map[string]any{"handler": "large"})
	client := weir.New(n.url())
	var runs atomic.Int32
	stop := startWorker(t, client, map[string]weir.Handler{"large": func(context.Context, *weir.Task) (any, error) {
		runs.Add(1)
		return strings.Repeat("x", 40<<20), nil // beyond the limit of a request
	}})
	ended := wait(t, client, enqueue(t, client, "large", nil))
	stop()
	if ended.Status != "FAILED" || ended.ErrorCode != "handler_bad_output" || runs.Load() != 1 {
		t.Fatalf("%+v after %d runs", ended, runs.Load())
	}
}

// refuser answers the first reports of a result as a node with another token would.
type refuser struct{ left atomic.Int32 }

func (r *refuser) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(request.URL.Path, ":complete") || r.left.Add(-1) < 0 {
		return http.DefaultTransport.RoundTrip(request)
	}
	answer := httptest.NewRecorder()
	answer.WriteHeader([]int{http.StatusUnauthorized, http.StatusForbidden}[r.left.Load()%2])
	return answer.Result(), nil
}

func TestResultOutlastsATokenThatIsRefused(t *testing.T) {
	n := startNode(t)
	n.apply("job", map[string]any{"handler": "job"})
	client := weir.New(n.url())
	transport := &refuser{}
	transport.left.Store(4)
	client.HTTP = &http.Client{Transport: transport}
	var runs atomic.Int32
	startWorker(t, client, map[string]weir.Handler{"job": func(context.Context, *weir.Task) (any, error) {
		return runs.Add(1), nil
	}})
	ended := wait(t, client, enqueue(t, client, "job", nil))
	if ended.Status != "COMPLETED" || runs.Load() != 1 || transport.left.Load() >= 0 {
		t.Fatalf("%+v after %d runs", ended, runs.Load())
	}
}

// --- the client ---

func TestEnqueueWithAKeyIsDoneOnce(t *testing.T) {
	n := startNode(t)
	n.apply("job", map[string]any{"handler": "job"})
	// The first address has no node.
	client := weir.New("http://127.0.0.1:1", n.url())
	request := weir.Enqueue{Workspace: "acme", Workflow: "job", IdempotencyKey: "one"}
	first, before, err := client.Enqueue(within(t), request)
	if err != nil || before {
		t.Fatal(first, before, err)
	}
	second, before, err := client.Enqueue(within(t), request)
	if err != nil || !before || first != second {
		t.Errorf("%s and %s, %v, %v", first, second, before, err)
	}
}

func TestRefusalIsAnError(t *testing.T) {
	n := startNode(t)
	_, _, err := weir.New(n.url()).Enqueue(within(t), weir.Enqueue{Workspace: "acme", Workflow: "none"})
	var refusal *weir.Error
	if !errors.As(err, &refusal) || refusal.Code != "workflow_not_found" || refusal.Status != http.StatusNotFound {
		t.Errorf("%v", err)
	}
	if err == nil || !strings.Contains(err.Error(), "workflow_not_found") {
		t.Errorf("%v", err)
	}
}

func TestAnswerOfAProxyIsAnError(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%v", r.Header)
		}
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprint(w, "<html>")
	}))
	defer proxy.Close()
	client := weir.New(proxy.URL + "/")
	client.Token = "secret"
	_, err := client.Show(within(t), "x")
	var refusal *weir.Error
	if !errors.As(err, &refusal) || refusal.Status != http.StatusBadGateway {
		t.Errorf("%v", err)
	}
}

func nothing(context.Context, *weir.Task) (any, error) { return nil, nil }

func TestAddressThatIsNoneIsAnError(t *testing.T) {
	for _, address := range []string{"127.0.0.1:7717", "localhost", "", "ftp://localhost", "http://", "http://ann:secret@localhost"} {
		client := weir.New("http://127.0.0.1:1", address)
		worker := weir.NewWorker(client, weir.WorkerOptions{})
		worker.Handle("job", nothing)
		_, _, enqueued := client.Enqueue(within(t), weir.Enqueue{Workspace: "acme", Workflow: "job"})
		_, waited := client.Wait(within(t), "x")
		for _, err := range []error{worker.Run(within(t)), enqueued, waited} {
			if err == nil || !strings.Contains(err.Error(), "address 2: the address of a node") || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: %v", address, err)
			}
		}
	}
}

func TestTokenLeavesTheMachineEncryptedAlone(t *testing.T) {
	for address, isRefused := range map[string]bool{"http://192.0.2.1": true, "http://weir.invalid": true, "http://localhost:1": false,
		"http://127.0.0.9:1": false, "http://[::1]:1": false, "https://weir.invalid": false} {
		client := weir.New(address)
		client.Token = "secret"
		ctx, cancel := context.WithCancel(within(t))
		cancel() // no request is made
		_, err := client.Show(ctx, "x")
		if isRefused != strings.Contains(err.Error(), "use an address with https") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestSlotsBeyondTheLimitsAreAnError(t *testing.T) {
	for _, slots := range []int{-1, 1001} {
		worker := weir.NewWorker(weir.New("http://127.0.0.1:1"), weir.WorkerOptions{Slots: slots})
		worker.Handle("job", nothing)
		if err := worker.Run(within(t)); err == nil || !strings.Contains(err.Error(), "1 to 1000 Slots") {
			t.Errorf("%d: %v", slots, err)
		}
	}
}

func TestHandlePanicsWithoutANameOrAFunctionAndForASecondOne(t *testing.T) {
	worker := weir.NewWorker(weir.New("http://127.0.0.1:1"), weir.WorkerOptions{})
	worker.Handle("job", nothing)
	for name, handler := range map[string]weir.Handler{"": nothing, "job": nothing, "nil": nil} {
		func() {
			defer func() {
				if caught := recover(); caught == nil || !strings.Contains(fmt.Sprint(caught), "handler") {
					t.Errorf("%q: %v", name, caught)
				}
			}()
			worker.Handle(name, handler)
		}()
	}
}

// logged collects the lines of a worker's log.
type logged struct {
	lock sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.Write(line)
}

func (l *logged) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.String()
}

func TestWorkerLogsItsStartEachOutageOnceAndFailures(t *testing.T) {
	n := startNode(t)
	n.apply("job", map[string]any{"handler": "job", "retry": map[string]any{"attempts": 1}})
	client := weir.New(n.url())
	log := &logged{}
	worker := weir.NewWorker(client, weir.WorkerOptions{Log: slog.New(slog.NewTextHandler(log, nil))})
	worker.Handle("job", func(context.Context, *weir.Task) (any, error) { panicHere(); return nil, nil })
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	await := func(text string, count int) {
		for end := time.Now().Add(mostTime); strings.Count(log.String(), text) < count; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no %q: %s", text, log)
			}
		}
	}
	await("the worker claims tasks", 1)
	wait(t, client, enqueue(t, client, "job", nil))
	await("an attempt has failed", 1)
	if !strings.Contains(log.String(), "panicHere") || !strings.Contains(log.String(), "handlers=[job]") {
		t.Errorf("%s", log)
	}
	n.end(syscall.SIGKILL)
	await("does not answer a claim", 1)
	time.Sleep(time.Second) // several tries
	n.start()
	await("the worker claims tasks", 2)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if strings.Count(log.String(), "does not answer a claim") != 1 {
		t.Errorf("%s", log)
	}
}

func panicHere() { panic("no") }

func TestLinesOfATaskAreInItsLog(t *testing.T) {
	n := startNode(t)
	n.apply("job", map[string]any{"handler": "job"})
	client := weir.New(n.url())
	goOn := make(chan struct{})
	startWorker(t, client, map[string]weir.Handler{"job": func(_ context.Context, task *weir.Task) (any, error) {
		task.Log("first\x00\xff lines")
		<-goOn
		task.Log("x" + strings.Repeat("é", 100_000)) // the limit is in the middle of a letter
		for i := 0; i < 2000; i++ {
			task.Log("y")
		}
		return nil, nil
	}})
	id := enqueue(t, client, "job", nil)
	for end := time.Now().Add(mostTime); !strings.Contains(n.run("logs", id), "first?? lines"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the line of a task that runs is not there")
		}
	}
	close(goOn)
	wait(t, client, id)
	text := n.run("logs", id)
	if strings.Count(text, "first") != 1 || !strings.Contains(text, strings.Repeat("é", 30_000)) ||
		strings.Contains(text, "\ufffd") || !strings.Contains(text, "bytes are left out") {
		t.Errorf("%.200s ... %s", text, text[max(0, len(text)-200):])
	}
}

// scale weighs the heartbeats.
type scale struct{ most, sum atomic.Int64 }

func (s *scale) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.HasSuffix(request.URL.Path, ":heartbeat") {
		s.most.Store(max(s.most.Load(), request.ContentLength))
		s.sum.Add(request.ContentLength)
	}
	return http.DefaultTransport.RoundTrip(request)
}

func TestLinesOfManyTasksGoInSeveralHeartbeats(t *testing.T) {
	const tasks, lines, lineBytes = 40, 12, 5000
	n := startNodeWithLease(t, "5m") // only lines bring a heartbeat
	n.apply("job", map[string]any{"handler": "job"})
	n.run("plan", "set", "wide", "--max-concurrent", fmt.Sprint(tasks), "-q")
	n.run("workspace", "set", "acme", "--plan", "wide", "-q")
	client := weir.New(n.url())
	weighed := &scale{}
	client.HTTP = &http.Client{Transport: weighed}
	worker := weir.NewWorker(client, weir.WorkerOptions{Slots: tasks})
	goOn := make(chan struct{})
	var begun sync.WaitGroup
	begun.Add(tasks)
	worker.Handle("job", func(_ context.Context, task *weir.Task) (any, error) {
		begun.Done()
		begun.Wait()
		for i := 0; i < lines; i++ { // control characters take six bytes in JSON
			task.Log(strings.Repeat("\x01", lineBytes))
		}
		<-goOn
		return nil, nil
	})
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	var ids []string
	for i := 0; i < tasks; i++ {
		ids = append(ids, enqueue(t, client, "job", nil))
	}
	for end := time.Now().Add(mostTime); weighed.sum.Load() < tasks*lines*lineBytes*6; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes in heartbeats, at most %d", weighed.sum.Load(), weighed.most.Load())
		}
	}
	close(goOn)
	for _, id := range ids {
		if execution := wait(t, client, id); execution.Status != "COMPLETED" {
			t.Fatalf("%+v", execution)
		}
	}
	cancel()
	if err := <-ended; err != nil || weighed.most.Load() > 4<<20 {
		t.Errorf("%v: a heartbeat of %d bytes", err, weighed.most.Load())
	}
}

func TestWorkerNeedsAHandlerAndANode(t *testing.T) {
	if err := weir.NewWorker(weir.New("http://127.0.0.1:1"), weir.WorkerOptions{}).Run(within(t)); err == nil {
		t.Error("a worker without a handler runs")
	}
	worker := weir.NewWorker(weir.New(), weir.WorkerOptions{})
	worker.Handle("job", nothing)
	if err := worker.Run(within(t)); err == nil {
		t.Error("a worker without a node runs")
	}
}

func TestWorkerEndsWithARefusalThatNoRepetitionMends(t *testing.T) {
	n := startNode(t)
	worker := weir.NewWorker(weir.New(n.url()), weir.WorkerOptions{Name: "w", Group: "no-such-group"})
	worker.Handle("job", nothing)
	var refusal *weir.Error
	if err := worker.Run(within(t)); !errors.As(err, &refusal) || refusal.Status != http.StatusNotFound {
		t.Errorf("%v", err)
	}
}
