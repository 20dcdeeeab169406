// Package weir enqueues executions and runs handlers of workflows over HTTP.
//
// A program that runs handlers is a worker:
//
//	client := weir.New("http://127.0.0.1:7717")
//	worker := weir.NewWorker(client, weir.WorkerOptions{Slots: 10})
//	worker.Handle("send-mail", func(ctx context.Context, task *weir.Task) (any, error) {
//		return map[string]int{"sent": 1}, nil
//	})
//	err := worker.Run(ctx)
//
// docs/workers.md of the project describes the protocol.
package weir

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Answers larger than this are refused: the largest one that a node sends has 16 MiB.
const answerBytesMax = 32 << 20

// Calls other than claims and waits end after this time.
const callTimeout = 10 * time.Second

// Client calls the nodes at some addresses. Its methods may be called from several goroutines.
type Client struct {
	// Token is sent as a bearer token, if it is not empty. It leaves this machine by https alone. Set it before the first call.
	Token string
	// HTTP makes the requests. Set it before the first call.
	HTTP    *http.Client
	urls    []string
	invalid error // of the first address that is none
}

// New returns a client for the nodes at the addresses, like "http://127.0.0.1:7717". The nodes share one store. A call
// goes to the first one that answers. An address that is none is the error of each call, and of Worker.Run.
func New(urls ...string) *Client {
	client := &Client{HTTP: &http.Client{}}
	for number, address := range urls {
		if err := checkAddress(address); err != nil && client.invalid == nil {
			client.invalid = fmt.Errorf("weir: address %d: %w", number+1, err)
		}
		client.urls = append(client.urls, strings.TrimRight(address, "/"))
	}
	return client
}

// checkAddress never repeats the text: there may be a password in it.
func checkAddress(address string) error {
	parsed, err := url.Parse(address)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Hostname() == "" {
		return errors.New("the address of a node is like http://127.0.0.1:7717")
	}
	if parsed.User != nil || parsed.RawQuery != "" {
		return errors.New("the address of a node has no user and no query: use Token instead")
	}
	return nil
}

// isOpenToOthers reports whether a token that is sent there may be read on the way.
func isOpenToOthers(address string) bool {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(parsed.Hostname())
	return parsed.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// check returns why no call can succeed.
func (c *Client) check() error {
	if len(c.urls) == 0 {
		return errors.New("weir: the client has no address of a node")
	}
	if c.invalid != nil {
		return c.invalid
	}
	for _, address := range c.urls {
		if c.Token != "" && isOpenToOthers(address) {
			return errors.New("weir: the token would leave this machine unencrypted: use an address with https")
		}
	}
	return nil
}

// Error is a refusal by a node: a problem of RFC 9457.
type Error struct {
	Status    int    `json:"status"`
	Code      string `json:"code"` // as "workflow_not_found"
	Detail    string `json:"detail"`
	Hint      string `json:"hint"`
	RequestID string `json:"request_id"`
}

func (e *Error) Error() string {
	text := fmt.Sprintf("weir: %s (%s)", e.Detail, e.Code)
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// isLater reports whether the same call may succeed at another node, or later.
func isLater(err error) bool {
	var refusal *Error
	return !errors.As(err, &refusal) || refusal.Status == http.StatusServiceUnavailable ||
		refusal.Status == http.StatusTooManyRequests
}

// call makes one request to one node, and reads the JSON of its answer into `answer`, unless that is nil.
func (c *Client) call(ctx context.Context, method, address string, body, answer any, header http.Header) (int, error) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, fmt.Errorf("weir: the request is no JSON: %w", err)
		}
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, address, reader)
	if err != nil {
		return 0, fmt.Errorf("weir: %w", err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return 0, fmt.Errorf("weir: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return 0, fmt.Errorf("weir: the answer was cut off: %w", err)
	}
	if response.StatusCode >= 400 {
		refusal := &Error{Status: response.StatusCode, Code: "unknown", Detail: response.Status}
		_ = json.Unmarshal(text, refusal) // a proxy may answer with a page
		refusal.Status = response.StatusCode
		return response.StatusCode, refusal
	}
	if answer != nil {
		if err := json.Unmarshal(text, answer); err != nil {
			return 0, fmt.Errorf("weir: the answer of %s is no JSON: %w", address, err)
		}
	}
	return response.StatusCode, nil
}

// callAny makes the request to one node after the other, until one answers.
func (c *Client) callAny(ctx context.Context, method, path string, body, answer any, header http.Header) (int, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	var err error
	for _, base := range c.urls {
		var status int
		within, cancel := context.WithTimeout(ctx, callTimeout)
		status, err = c.call(within, method, base+path, body, answer, header)
		cancel()
		if err == nil || !isLater(err) || ctx.Err() != nil {
			return status, err
		}
	}
	return 0, err
}

// Enqueue asks for an execution.
type Enqueue struct {
	Workspace string `json:"-"`
	Workflow  string `json:"workflow"`
	Params    any    `json:"params,omitempty"` // becomes a JSON object
	// IdempotencyKey makes a repeated request the same execution. Without one, a request whose answer was lost may have
	// made an execution all the same.
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	Group          string            `json:"executor_group,omitempty"`
	Priority       int               `json:"priority,omitempty"`
	Traceparent    string            `json:"traceparent,omitempty"`  // the W3C trace context that the execution belongs to
	BusinessKey    string            `json:"business_key,omitempty"` // what it is about, as order-17; not unique
	Labels         map[string]string `json:"labels,omitempty"`       // by which lists and acts find it
}

// Enqueue returns the id of the execution. `duplicate`: an earlier request with the same key has made it.
func (c *Client) Enqueue(ctx context.Context, request Enqueue) (id string, duplicate bool, err error) {
	var answer struct {
		ID        string `json:"id"`
		Duplicate bool   `json:"duplicate"`
	}
	path := "/v1/workspaces/" + url.PathEscape(request.Workspace) + "/executions"
	_, err = c.callAny(ctx, http.MethodPost, path, request, &answer, nil)
	return answer.ID, answer.Duplicate, err
}

// Execution is an execution as a node shows it.
type Execution struct {
	ID        string          `json:"id"`
	Workspace string          `json:"workspace"`
	Workflow  string          `json:"workflow"`
	Status    string          `json:"status"` // PENDING, CLAIMED, DISPATCHED, WAITING, COMPLETED, FAILED, CANCELLED
	ErrorCode string          `json:"error_code"`
	Error     string          `json:"error"`
	Steps     json.RawMessage `json:"steps"`
}

// HasEnded reports whether the status is final.
func (e *Execution) HasEnded() bool {
	return e.Status == "COMPLETED" || e.Status == "FAILED" || e.Status == "CANCELLED"
}

// Show reads the execution.
func (c *Client) Show(ctx context.Context, id string) (*Execution, error) {
	execution := &Execution{}
	_, err := c.callAny(ctx, http.MethodGet, "/v1/executions/"+url.PathEscape(id), nil, execution, nil)
	if err != nil {
		return nil, err
	}
	return execution, nil
}

// The times between two looks at an execution.
const (
	waitFirst = 20 * time.Millisecond
	waitMost  = time.Second
)

// Wait returns the execution when it has ended. It outlasts nodes that are down: the context ends it.
func (c *Client) Wait(ctx context.Context, id string) (*Execution, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	for pause := waitFirst; ; pause = min(pause*2, waitMost) {
		execution, err := c.Show(ctx, id)
		if err == nil && execution.HasEnded() {
			return execution, nil
		}
		if err != nil && !isLater(err) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}
