// A Temporal server of one process for the tests, of a version that Temporal's command line does not offer. It takes the
// flags of `temporal server start-dev` that the tests use, so that the tests need not know which of the two they start. The
// version is that of go.mod: the newest one that the module proxy serves.
//
// usage: temporal server start-dev --port PORT --db-filename FILE [--ip IP] [--headless] [--log-level LEVEL]
//
//	[--namespace NAME]... [--sqlite-pragma NAME=VALUE]... [--dynamic-config-value KEY=JSON]...
//	temporal --version
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

const clusterName = "active"

// A flag that may be given several times, each time as NAME=VALUE or NAME.
type pairs [][2]string

func (p *pairs) String() string { return "" }

func (p *pairs) Set(text string) error {
	name, value, _ := strings.Cut(text, "=")
	*p = append(*p, [2]string{name, value})
	return nil
}

type options struct {
	ip, file, level             string
	port                        int
	namespaces, pragmas, values pairs
}

func readOptions(words []string) (options, error) {
	if len(words) < 2 || words[0] != "server" || words[1] != "start-dev" {
		return options{}, errors.New("usage: temporal server start-dev --port PORT --db-filename FILE [...]")
	}
	var read options
	flags := flag.NewFlagSet("temporal server start-dev", flag.ContinueOnError)
	flags.StringVar(&read.ip, "ip", "127.0.0.1", "address of the frontend")
	flags.IntVar(&read.port, "port", 7233, "port of the frontend")
	flags.StringVar(&read.file, "db-filename", "", "SQLite file")
	flags.StringVar(&read.level, "log-level", "error", "least level that is logged")
	_ = flags.Bool("headless", true, "there is no user interface")
	flags.Var(&read.namespaces, "namespace", "made at the start, beside `default`")
	flags.Var(&read.pragmas, "sqlite-pragma", "NAME=VALUE")
	flags.Var(&read.values, "dynamic-config-value", "KEY=JSON")
	if err := flags.Parse(words[2:]); err != nil {
		return options{}, err
	}
	if read.file == "" {
		return options{}, errors.New("--db-filename is missing: name the file that keeps the data")
	}
	return read, nil
}

// Of the services behind the frontend: the system chooses.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func services(wanted options) (map[string]config.Service, error) {
	made := map[string]config.Service{}
	for _, name := range []primitives.ServiceName{primitives.FrontendService, primitives.HistoryService,
		primitives.MatchingService, primitives.WorkerService} {
		membership, err := freePort()
		if err != nil {
			return nil, err
		}
		rpc := config.RPC{GRPCPort: wanted.port, MembershipPort: membership, BindOnIP: wanted.ip}
		if name != primitives.FrontendService {
			if rpc.GRPCPort, err = freePort(); err != nil {
				return nil, err
			}
		}
		made[string(name)] = config.Service{RPC: rpc}
	}
	return made, nil
}

func settings(wanted options) (*config.Config, *config.SQL, error) {
	address := fmt.Sprintf("%s:%d", wanted.ip, wanted.port)
	store := &config.SQL{
		PluginName:        sqliteplugin.PluginName,
		DatabaseName:      wanted.file,
		ConnectAttributes: map[string]string{"mode": "rwc"},
	}
	for _, pragma := range wanted.pragmas {
		store.ConnectAttributes["_"+pragma[0]] = pragma[1]
	}
	made, err := services(wanted)
	if err != nil {
		return nil, nil, err
	}
	return &config.Config{
		Global: config.Global{
			Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: "127.0.0.1"},
		},
		Persistence: config.Persistence{
			DefaultStore:     "store",
			VisibilityStore:  "store",
			NumHistoryShards: 1,
			DataStores:       map[string]config.DataStore{"store": {SQL: store}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: address},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            made,
		Archival: config.Archival{
			History:    config.HistoryArchival{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchival{State: config.ArchivalDisabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: config.ArchivalDisabled},
		}},
		PublicClient: config.PublicClient{HostPort: address},
	}, store, nil
}

// The schema of a new file, and the namespaces that are missing.
func prepareStore(wanted options, store *config.SQL) error {
	if _, err := os.Stat(wanted.file); errors.Is(err, os.ErrNotExist) {
		if err := sqlite.SetupSchema(store); err != nil {
			return fmt.Errorf("schema: %w", err)
		}
	}
	names := []string{"default"}
	for _, namespace := range wanted.namespaces {
		names = append(names, namespace[0])
	}
	var namespaces []*sqlite.NamespaceConfig
	for _, name := range names {
		namespace, err := sqlite.NewNamespaceConfig(clusterName, name, false, nil)
		if err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
		namespaces = append(namespaces, namespace)
	}
	return sqlite.CreateNamespaces(store, namespaces...)
}

// As the development server does, a namespace or search attribute that was just made is seen at once.
func dynamicValues(wanted options) (dynamicconfig.StaticClient, error) {
	values := dynamicconfig.StaticClient{
		dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key(): true,
	}
	for _, pair := range wanted.values {
		var value any
		if err := json.Unmarshal([]byte(pair[1]), &value); err != nil {
			return nil, fmt.Errorf("--dynamic-config-value %s: %w", pair[0], err)
		}
		if number, is := value.(float64); is && number == float64(int(number)) {
			value = int(number)
		}
		values[dynamicconfig.MakeKey(pair[0])] = value
	}
	return values, nil
}

func run(words []string) error {
	if len(words) == 1 && words[0] == "--version" {
		fmt.Println("temporal server for tests,", headers.ServerVersion)
		return nil
	}
	wanted, err := readOptions(words)
	if err != nil {
		return err
	}
	made, store, err := settings(wanted)
	if err != nil {
		return err
	}
	if err := prepareStore(wanted, store); err != nil {
		return err
	}
	values, err := dynamicValues(wanted)
	if err != nil {
		return err
	}
	logger := log.NewZapLogger(log.BuildZapLogger(log.Config{Stdout: true, Level: wanted.level}))
	server, err := temporal.NewServer(
		temporal.WithConfig(made),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithDynamicConfigClient(values),
		temporal.InterruptOn(temporal.InterruptCh()),
	)
	if err != nil {
		return err
	}
	return server.Start()
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "temporal:", err)
		os.Exit(1)
	}
}
