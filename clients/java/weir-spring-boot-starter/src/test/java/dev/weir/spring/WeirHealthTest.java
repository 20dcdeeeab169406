package dev.weir.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.weir.client.WeirHandler;
import dev.weir.testing.Programs;
import dev.weir.testing.WeirNode;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;

/** The indicator needs Spring Boot 4. The node has TLS, whose certificate is in a bundle. */
class WeirHealthTest {

  /** No database. */
  @Configuration(proxyBeanMethods = false)
  @EnableAutoConfiguration(exclude = DataSourceAutoConfiguration.class)
  static class Application {
    @WeirHandler("job")
    public void job() {}
  }

  @Test
  void theWorkerIsDownWhileNoNodeAnswers() {
    try (WeirNode node = WeirNode.startWithTls();
        ConfigurableApplicationContext application =
            SpringApplication.run(
                Application.class,
                "--weir.url=" + node.url(),
                "--weir.ssl-bundle=weir",
                "--spring.ssl.bundle.pem.weir.truststore.certificate=file:" + node.certificate())) {
      HealthIndicator indicator = application.getBean("weirHealthIndicator", HealthIndicator.class);
      assertEquals(Status.UP, indicator.health().getStatus());
      node.kill();
      Programs.await("bad health", () -> indicator.health().getStatus().equals(Status.DOWN));
      node.serve();
      Programs.await("good health", () -> indicator.health().getStatus().equals(Status.UP));
    }
  }
}
