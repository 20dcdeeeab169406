package dev.weir.client;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Marks a method as the handler of a name.
 *
 * <p>The method may take the {@link Task}, and one more value, which Jackson makes of the input of
 * the task. What it returns is the output.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface WeirHandler {
  /**
   * The NAME of {@code handler: NAME} in a step.
   *
   * @return the name
   */
  String value();
}
