package dev.weir.spring;

import dev.weir.client.WeirClient;
import dev.weir.client.Worker;
import java.time.Duration;
import java.util.Optional;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.context.SmartLifecycle;

/**
 * Runs the methods with {@link dev.weir.client.WeirHandler} while the application runs. It starts
 * after all other beans. When the application stops it claims nothing more first, and waits for the
 * handlers that run.
 */
public final class WeirWorker implements SmartLifecycle {
  private final ObjectProvider<WeirClient> client;
  private final WeirProperties.WorkerProperties properties;
  private final ConfigurableListableBeanFactory beans;
  private volatile Worker worker;

  WeirWorker(
      ObjectProvider<WeirClient> client,
      WeirProperties.WorkerProperties properties,
      ConfigurableListableBeanFactory beans) {
    this.client = client;
    this.properties = properties;
    this.beans = beans;
  }

  /**
   * Returns the worker.
   *
   * @return the worker, or nothing when the application has no handler or does not run
   */
  public Optional<Worker> worker() {
    return Optional.ofNullable(worker);
  }

  @Override
  public void start() {
    WeirHandlers handlers = new WeirHandlers(beans);
    if (handlers.isEmpty()) {
      return;
    }
    WeirClient connected = client.getIfAvailable();
    if (connected == null) {
      throw new IllegalStateException(
          "the application has methods with @WeirHandler, and no address of a node: set weir.url, or weir.worker.enabled=false");
    }
    Worker.Builder builder = Worker.builder(connected);
    properties.applyTo(builder);
    handlers.addTo(builder);
    Worker made = builder.build();
    made.start();
    worker = made;
  }

  @Override
  public void stop() {
    Worker running = worker;
    worker = null;
    if (running != null) {
      running.stop(stopTimeout());
    }
  }

  /** The stop may take long, so that it must not delay that of other beans of its phase. */
  @Override
  public void stop(Runnable callback) {
    Thread stopper =
        new Thread(
            () -> {
              try {
                stop();
              } finally {
                callback.run();
              }
            },
            "weir-stop");
    stopper.start();
  }

  private Duration stopTimeout() {
    return properties.stopTimeout();
  }

  @Override
  public boolean isRunning() {
    return worker != null;
  }
}
