package dev.weir.spring;

import dev.weir.client.WeirException;
import dev.weir.client.Worker;
import java.util.Optional;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.context.annotation.Bean;

/**
 * The health of the worker, for the actuator of Spring Boot 4: down while no node answers a claim,
 * or after a refusal has ended it.
 */
@AutoConfiguration(after = WeirAutoConfiguration.class)
@ConditionalOnClass(HealthIndicator.class)
public class WeirHealthAutoConfiguration {

  /** Makes the configuration. */
  public WeirHealthAutoConfiguration() {}

  @Bean
  @ConditionalOnBean(WeirWorker.class)
  @ConditionalOnMissingBean(name = "weirHealthIndicator")
  HealthIndicator weirHealthIndicator(WeirWorker worker) {
    return () -> health(worker.worker());
  }

  private static Health health(Optional<Worker> worker) {
    if (worker.isEmpty()) {
      return Health.unknown().withDetail("reason", "no handler").build();
    }
    Optional<WeirException> problem = worker.get().problem();
    if (problem.isPresent()) {
      return Health.down(problem.get()).build();
    }
    return Health.up()
        .withDetail("worker", worker.get().name())
        .withDetail("running", worker.get().running())
        .build();
  }
}
