package dev.weir.spring;

import dev.weir.client.WeirHandler;
import dev.weir.client.Worker;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.TreeMap;
import org.springframework.aop.framework.autoproxy.AutoProxyUtils;
import org.springframework.aop.scope.ScopedProxyUtils;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.AnnotationUtils;

/**
 * The methods of beans that have {@link WeirHandler}. They are called through the proxy of their
 * bean, so that its advice works.
 */
final class WeirHandlers {
  private record Handler(String bean, Method method) {}

  private final ConfigurableListableBeanFactory beans;
  private final Map<String, Handler> handlers = new TreeMap<>();

  /** Finds the methods. It makes no bean: the beans with handlers are made by {@link #addTo}. */
  WeirHandlers(ConfigurableListableBeanFactory beans) {
    this.beans = beans;
    for (String name : beans.getBeanDefinitionNames()) {
      if (ScopedProxyUtils.isScopedTarget(name)) {
        continue; // its proxy is a bean, too
      }
      Class<?> type = AutoProxyUtils.determineTargetClass(beans, name);
      if (type != null && AnnotationUtils.isCandidateClass(type, WeirHandler.class)) {
        find(name, type);
      }
    }
  }

  private void find(String bean, Class<?> type) {
    Map<Method, WeirHandler> found =
        MethodIntrospector.selectMethods(
            type,
            (MethodIntrospector.MetadataLookup<WeirHandler>)
                method -> AnnotatedElementUtils.findMergedAnnotation(method, WeirHandler.class));
    found.forEach(
        (method, handler) -> {
          Handler other = handlers.put(handler.value(), new Handler(bean, method));
          if (other != null) {
            throw new IllegalStateException(
                "two methods have @WeirHandler(\""
                    + handler.value()
                    + "\"): "
                    + other.method()
                    + " and "
                    + method);
          }
        });
  }

  boolean isEmpty() {
    return handlers.isEmpty();
  }

  void addTo(Worker.Builder builder) {
    handlers.forEach(
        (name, handler) -> {
          Object bean = beans.getBean(handler.bean());
          builder.handle(
              name, bean, AopUtils.selectInvocableMethod(handler.method(), bean.getClass()));
        });
  }
}
