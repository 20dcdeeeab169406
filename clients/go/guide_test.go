package weir_test

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// guideBlock returns the first block of docs/go.md that has the heading.
func guideBlock(t *testing.T, heading string) string {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "go.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?ms)^```" + regexp.QuoteMeta(heading) + "\n(.*?)^```$").FindSubmatch(text)
	if found == nil {
		t.Fatalf("docs/go.md has no block %q", heading)
	}
	return string(found[1])
}

// packModule writes the module as a proxy of modules has it.
func packModule(t *testing.T, version string) string {
	folder := t.TempDir()
	place := filepath.Join(folder, "weir.dev", "go", "@v")
	var packed bytes.Buffer
	writer := zip.NewWriter(&packed)
	files, err := filepath.Glob("*")
	if err != nil || os.MkdirAll(place, 0o700) != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		part, err := writer.Create("weir.dev/go@" + version + "/" + name)
		if err == nil {
			_, err = part.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	module, err := os.ReadFile("go.mod")
	if err != nil || writer.Close() != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{".zip": packed.Bytes(), ".mod": module, ".info": []byte(`{"Version": "` + version + `"}`)} {
		if err := os.WriteFile(filepath.Join(place, version+name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// project is a folder with a program of a user, outside of this repository.
type project struct {
	t      *testing.T
	folder string
	proxy  string
}

func (p *project) run(words ...string) {
	command := exec.Command(words[0], words[1:]...)
	command.Dir = p.folder
	command.Env = append(os.Environ(), "GOFLAGS=-modcacherw", "GOWORK=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOPROXY="+p.proxy,
		"GOMODCACHE="+filepath.Join(p.folder, "modules"))
	if out, err := command.CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %v\n%s", words, err, out)
	}
}

// TestGuide takes the steps of docs/go.md in a clean folder: with the module of a copy, and with a released one.
func TestGuide(t *testing.T) {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	n := startNode(t)
	n.run("workflow", "apply", n.write("send-mail.yaml", guideBlock(t, "yaml send-mail.yaml")), "-q")
	install := strings.ReplaceAll(guideBlock(t, "sh"), "../weir/clients/go", here)
	for name, steps := range map[string]string{
		"copy":     install,
		"released": "go mod init example.org/mails\ngo get weir.dev/go@v0.1.0\n",
	} {
		t.Run(name, func(t *testing.T) {
			p := &project{t: t, folder: t.TempDir(), proxy: "off"}
			if name == "released" {
				p.proxy = "file://" + packModule(t, "v0.1.0")
			}
			program := strings.ReplaceAll(guideBlock(t, "go main.go"), "http://127.0.0.1:7717", n.url())
			if err := os.WriteFile(filepath.Join(p.folder, "main.go"), []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			p.run("sh", "-ec", steps)
			p.run("go", "vet", "./...")
			p.run("go", "build", "-o", "mails", ".")
			worker := exec.Command(filepath.Join(p.folder, "mails"))
			log := &logged{}
			worker.Stderr = log
			if err := worker.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = worker.Process.Kill() }()
			out := n.run("enqueue", "-w", "acme", "send-mail", "-p", `{"to": "ada@example.org"}`, "--wait", "--timeout", "90s")
			if !strings.Contains(out, `{"attempt":1,"sent":"ada@example.org"}`) {
				t.Errorf("%s", out)
			}
			if lines := n.run("logs", "--last"); !strings.Contains(lines, "a mail to ada@example.org") {
				t.Errorf("%s", lines)
			}
			_ = worker.Process.Signal(syscall.SIGTERM)
			if err := worker.Wait(); err != nil || !strings.Contains(log.String(), "weir: the worker claims tasks") {
				t.Errorf("%v: %s", err, log)
			}
		})
	}
}

// TestGuideSnippetCompiles compiles the block about enqueues.
func TestGuideSnippetCompiles(t *testing.T) {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	p := &project{t: t, folder: t.TempDir(), proxy: "off"}
	program := "package main\nimport (\n\"context\"\n\"fmt\"\n\"weir.dev/go\"\n)\ntype Mail struct{ To string }\nfunc main() {\nctx := context.Background()\n" +
		guideBlock(t, "go") + "fmt.Println(id, duplicate, execution, err)\n}\n"
	if err := os.WriteFile(filepath.Join(p.folder, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	p.run("sh", "-ec", strings.ReplaceAll(guideBlock(t, "sh"), "../weir/clients/go", here))
	p.run("go", "vet", "./...")
}
