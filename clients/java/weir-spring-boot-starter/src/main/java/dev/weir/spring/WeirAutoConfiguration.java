package dev.weir.spring;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.weir.client.JdbcEnqueue;
import dev.weir.client.WeirClient;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionMessage;
import org.springframework.boot.autoconfigure.condition.ConditionOutcome;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.boot.autoconfigure.condition.SpringBootCondition;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.ssl.SslBundles;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.ConditionContext;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.type.AnnotatedTypeMetadata;
import org.springframework.jdbc.core.JdbcTemplate;

/**
 * The beans of weir: {@link WeirClient} with {@code weir.url}, {@link WeirWorker}, and {@link
 * TransactionalEnqueue} with JDBC.
 */
@AutoConfiguration(
    afterName = {
      "org.springframework.boot.jdbc.autoconfigure.JdbcTemplateAutoConfiguration", // Spring Boot 4
      "org.springframework.boot.autoconfigure.jdbc.JdbcTemplateAutoConfiguration" // Spring Boot 3
    })
@EnableConfigurationProperties(WeirProperties.class)
public class WeirAutoConfiguration {

  /** Makes the configuration. */
  public WeirAutoConfiguration() {}

  @Bean
  @ConditionalOnMissingBean
  @Conditional(HasUrl.class)
  WeirClient weirClient(
      WeirProperties properties,
      ObjectProvider<ObjectMapper> mapper,
      ObjectProvider<SslBundles> bundles) {
    WeirClient.Builder builder =
        WeirClient.builder(properties.url())
            .token(properties.token())
            .timeout(properties.timeout());
    mapper.ifUnique(builder::objectMapper);
    if (properties.sslBundle() != null) {
      builder.sslContext(bundles.getObject().getBundle(properties.sslBundle()).createSslContext());
    }
    return builder.build();
  }

  @Bean
  @ConditionalOnMissingBean
  @ConditionalOnBooleanProperty(name = "weir.worker.enabled", matchIfMissing = true)
  WeirWorker weirWorker(
      ObjectProvider<WeirClient> client,
      WeirProperties properties,
      ConfigurableListableBeanFactory beans) {
    return new WeirWorker(client, properties.worker(), beans);
  }

  /** {@code weir.url} is a list, which YAML spells with numbers. An empty value counts as none. */
  static final class HasUrl extends SpringBootCondition {
    @Override
    public ConditionOutcome getMatchOutcome(
        ConditionContext context, AnnotatedTypeMetadata metadata) {
      boolean has =
          Binder.get(context.getEnvironment())
              .bind("weir.url", Bindable.listOf(String.class))
              .map(urls -> urls.stream().anyMatch(url -> !url.isBlank()))
              .orElse(false);
      return new ConditionOutcome(
          has,
          ConditionMessage.forCondition("weir.url").because(has ? "it is set" : "it is not set"));
    }
  }

  /** The enqueue in a transaction. */
  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(JdbcTemplate.class)
  static class Jdbc {
    @Bean
    @ConditionalOnMissingBean
    @ConditionalOnSingleCandidate(JdbcTemplate.class)
    TransactionalEnqueue weirTransactionalEnqueue(
        JdbcTemplate jdbc, WeirProperties properties, ObjectProvider<ObjectMapper> mapper) {
      String schema = properties.jdbc().schema();
      ObjectMapper unique = mapper.getIfUnique();
      return new TransactionalEnqueue(
          jdbc, unique == null ? new JdbcEnqueue(schema) : new JdbcEnqueue(schema, unique));
    }
  }
}
