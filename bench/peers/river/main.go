// River, with the settings of its own benchmark (cmd/river/riverbench of its repository).
//
// usage: river VERB URL COUNT      (verbs: ../README.md)
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

const (
	setMost     = 5000 // jobs of one insert, as in River's benchmark
	maxWorkers  = 2000
	lightCount  = 10
	warmUp      = 3
	roundsMin   = 3
	measureMost = time.Minute // after which no round begins, once there are roundsMin
	fullQueue   = "full_tenant"
	unfinished  = "SELECT count(*) FROM river_job WHERE state <> 'completed'"
	settingsAll = "MaxWorkers 2000, FetchCooldown 2 ms, FetchPollInterval 20 ms"
	settingsTen = "a queue for each tenant with MaxWorkers 1, FetchCooldown 2 ms, FetchPollInterval 20 ms"
)

type noopArgs struct{}

func (noopArgs) Kind() string { return "noop" }

type noopWorker struct {
	river.WorkerDefaults[noopArgs]
}

func (*noopWorker) Work(context.Context, *river.Job[noopArgs]) error { return nil }

type holdArgs struct{}

func (holdArgs) Kind() string { return "hold" }

type holdWorker struct {
	river.WorkerDefaults[holdArgs]
	running *atomic.Int64
}

func (*holdWorker) Timeout(*river.Job[holdArgs]) time.Duration { return -1 }

func (w *holdWorker) Work(ctx context.Context, _ *river.Job[holdArgs]) error {
	w.running.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

type lightArgs struct {
	Round int `json:"round"`
}

func (lightArgs) Kind() string { return "light" }

type lightWorker struct {
	river.WorkerDefaults[lightArgs]
	started chan time.Time
}

func (w *lightWorker) Work(context.Context, *river.Job[lightArgs]) error {
	w.started <- time.Now()
	return nil
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/riverqueue/river" {
			return module.Version
		}
	}
	return "unknown"
}

func print(line map[string]any) error {
	line["name"] = "River"
	line["version"] = version()
	line["runtime"] = runtime.Version()
	return json.NewEncoder(os.Stdout).Encode(line)
}

func newClient(pool *pgxpool.Pool, queues map[string]river.QueueConfig, workers *river.Workers) (*river.Client[pgx.Tx], error) {
	return river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Logger:            slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Queues:            queues,
		Workers:           workers,
	})
}

func fill(ctx context.Context, pool *pgxpool.Pool, count int, args river.JobArgs, queue string) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	client, err := newClient(pool, nil, nil)
	if err != nil {
		return err
	}
	for done := 0; done < count; {
		set := make([]river.InsertManyParams, min(setMost, count-done))
		for i := range set {
			set[i] = river.InsertManyParams{Args: args, InsertOpts: &river.InsertOpts{Queue: queue}}
		}
		if _, err := client.InsertManyFast(ctx, set); err != nil {
			return err
		}
		done += len(set)
	}
	return nil
}

func drain(ctx context.Context, pool *pgxpool.Pool, count int) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &noopWorker{})
	client, err := newClient(pool, map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: maxWorkers}}, workers)
	if err != nil {
		return err
	}
	// As in River's benchmark: an event comes after the job's row was written.
	events, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: count, Kinds: []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed}})
	defer unsubscribe()
	began := time.Now()
	if err := client.Start(ctx); err != nil {
		return err
	}
	for i := 0; i < count; i++ {
		if event := <-events; event.Job.State != rivertype.JobStateCompleted {
			return fmt.Errorf("job %d is %s", event.Job.ID, event.Job.State)
		}
	}
	seconds := time.Since(began).Seconds()
	if err := client.Stop(ctx); err != nil {
		return err
	}
	var left int
	if err := pool.QueryRow(ctx, unfinished).Scan(&left); err != nil || left != 0 {
		return errors.Join(fmt.Errorf("%d jobs are not completed", left), err)
	}
	return print(map[string]any{
		"jobs": count, "seconds": seconds, "lifecycles_per_s": float64(count) / seconds, "settings": settingsAll})
}

func lightQueue(number int) string { return "tenant_" + strconv.Itoa(number) }

// River without its paid part has no limit over all clients. A queue for each tenant with MaxWorkers 1 is a limit of each
// client.
func startTen(ctx context.Context, pool *pgxpool.Pool, rounds int) error {
	var running atomic.Int64
	started := make(chan time.Time, lightCount)
	workers := river.NewWorkers()
	river.AddWorker(workers, &holdWorker{running: &running})
	river.AddWorker(workers, &lightWorker{started: started})
	queues := map[string]river.QueueConfig{fullQueue: {MaxWorkers: 1}}
	for i := range lightCount {
		queues[lightQueue(i)] = river.QueueConfig{MaxWorkers: 1}
	}
	client, err := newClient(pool, queues, workers)
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	for running.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	var delays []float64
	end := time.Now().Add(measureMost)
	for round := 0; len(delays) < rounds && (len(delays) < roundsMin || time.Now().Before(end)); round++ {
		set := make([]river.InsertManyParams, lightCount)
		for i := range set {
			set[i] = river.InsertManyParams{Args: lightArgs{Round: round}, InsertOpts: &river.InsertOpts{Queue: lightQueue(i)}}
		}
		began := time.Now()
		if _, err := client.InsertMany(ctx, set); err != nil {
			return err
		}
		var last time.Time
		for range lightCount {
			last = <-started
		}
		if round >= warmUp {
			delays = append(delays, last.Sub(began).Seconds()*1000)
		}
		time.Sleep(time.Duration(200+7*(round%10)) * time.Millisecond)
	}
	sort.Float64s(delays)
	return print(map[string]any{
		"rounds": len(delays), "start_of_ten_ms": delays[len(delays)/2], "start_of_ten_worst_ms": delays[len(delays)-1],
		"full_tenant_running": running.Load(), "settings": settingsTen})
}

func act(ctx context.Context, verb, url string, count int) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	switch verb {
	case "fill":
		return fill(ctx, pool, count, noopArgs{}, river.QueueDefault)
	case "drain":
		return drain(ctx, pool, count)
	case "fill-full-tenant":
		return fill(ctx, pool, count+1, holdArgs{}, fullQueue)
	case "start-ten":
		if err := startTen(ctx, pool, count); err != nil {
			return err
		}
		os.Exit(0) // the full tenant's job never ends
	}
	return fmt.Errorf("there is no verb %q", verb)
}

func main() {
	err := errors.New("the arguments are VERB URL COUNT")
	if len(os.Args) == 4 {
		var count int
		if count, err = strconv.Atoi(os.Args[3]); err == nil {
			err = act(context.Background(), os.Args[1], os.Args[2], count)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}
