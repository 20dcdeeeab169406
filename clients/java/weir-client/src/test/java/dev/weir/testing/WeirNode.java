package dev.weir.testing;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.weir.client.WeirClient;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** A real node in a folder of its own, with a store in SQLite or at a URL. */
public final class WeirNode implements AutoCloseable {
  private static final Pattern ADDRESS = Pattern.compile("http at ([^\\s,]+):?[,:]? ");
  // A loaded machine does not end it, and a killed worker does not hold its tasks for long.
  private static final String SETTINGS = "http.task_lease: 15s\n";

  private final Path folder;
  private final String name;
  private final boolean hasTls;
  private String address;
  private Process process;

  private WeirNode(String name, String settings, boolean hasTls) {
    this.name = name;
    this.hasTls = hasTls;
    this.address = hasTls ? "https://127.0.0.1:0" : "127.0.0.1:0";
    try {
      this.folder =
          Files.createTempDirectory(
              "weir-java",
              PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    write("weir.yaml", settings);
  }

  /** Starts a node with a store of its own in SQLite. */
  public static WeirNode start() {
    return new WeirNode("one", SETTINGS, false).initStore().serve();
  }

  /**
   * Starts a node with a store of its own, TLS and a certificate for localhost, which signs itself:
   * {@link #certificate()}.
   */
  public static WeirNode startWithTls() {
    WeirNode node =
        new WeirNode(
            "one",
            SETTINGS + "http.tls:\n  certificate_file: node.pem\n  key_file: node.key\n",
            true);
    Programs.run(
        new ProcessBuilder(
                ("openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
                        + " -out node.pem -keyout node.key")
                    .split(" "))
            .directory(node.folder.toFile()));
    try {
      Files.setPosixFilePermissions(
          node.folder.resolve("node.key"), PosixFilePermissions.fromString("rw-------"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return node.initStore().serve();
  }

  /** Starts a node of a store that may have other nodes. The first one makes the store. */
  public static WeirNode startOn(String store, String name) {
    WeirNode node = new WeirNode(name, SETTINGS + "store: " + store + "\n", false);
    return name.equals("one") ? node.initStore().serve() : node.serve();
  }

  private WeirNode initStore() {
    run("store", "init", "-q");
    run("workspace", "set", "acme", "--plan", "pro", "-q");
    return this;
  }

  /** Writes a file in the folder of the node. */
  public Path write(String file, String text) {
    try {
      return Files.writeString(folder.resolve(file), text);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private ProcessBuilder command(String... words) {
    List<String> command = new ArrayList<>();
    command.add(Programs.weir().toString());
    command.addAll(Arrays.asList(words));
    ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile());
    String path = System.getenv("PATH");
    builder.environment().clear();
    builder
        .environment()
        .putAll(Map.of("HOME", folder.toString(), "PATH", path, "LANG", "C.UTF-8"));
    return builder;
  }

  /** Runs a command of weir on the store of the node. */
  public String run(String... words) {
    return Programs.run(command(words));
  }

  /** Starts the node, or starts it again at its former address. */
  public WeirNode serve() {
    ProcessBuilder builder =
        command("serve", "--node", name, "--listen", address)
            .redirectOutput(ProcessBuilder.Redirect.DISCARD);
    try {
      process = builder.start();
      process.getOutputStream().close();
      BufferedReader errors = process.errorReader();
      StringBuilder read = new StringBuilder();
      for (String line = errors.readLine(); line != null; line = errors.readLine()) {
        read.append(line).append('\n');
        Matcher found = ADDRESS.matcher(line + " ");
        if (found.find()) {
          String text = found.group(1);
          address = text.endsWith(":") ? text.substring(0, text.length() - 1) : text;
          Thread drain = new Thread(() -> errors.lines().forEach(ignored -> {}), "node-errors");
          drain.setDaemon(true);
          drain.start();
          return this;
        }
      }
      throw new AssertionError("the node does not listen: " + read);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Kills the node, without a word to anyone. */
  public void kill() {
    process.destroyForcibly();
    try {
      process.waitFor();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Stops the node without ending it: it answers nothing, and its connections stay open. */
  public void freeze() {
    Programs.run(new ProcessBuilder("kill", "-STOP", Long.toString(process.pid())));
  }

  /** The address of the node, also while it is dead. */
  public String url() {
    return hasTls ? address.replace("127.0.0.1", "localhost") : "http://" + address;
  }

  /** The file of the certificate. */
  public Path certificate() {
    return folder.resolve("node.pem");
  }

  /** A client of the node. */
  public WeirClient client() {
    return WeirClient.builder(url()).build();
  }

  /** Publishes a workflow of one step. */
  public void apply(String workflow, Map<String, ?> step) {
    try {
      String text =
          new ObjectMapper()
              .writeValueAsString(Map.of("name", workflow, "steps", Map.of("only", step)));
      write(workflow + ".yaml", text);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    run("workflow", "apply", workflow + ".yaml", "-q");
  }

  /** Kills the node and removes its folder. */
  @Override
  public void close() {
    if (process != null) {
      kill();
    }
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path path : files.sorted(Comparator.reverseOrder()).toList()) {
        Files.delete(path);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
