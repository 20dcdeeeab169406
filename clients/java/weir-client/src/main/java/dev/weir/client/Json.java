package dev.weir.client;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.nio.charset.StandardCharsets;

/** The mappers of Jackson. */
final class Json {
  /**
   * Reads inputs, and writes params and outputs, unless the application has a mapper of its own.
   */
  static final ObjectMapper DEFAULT =
      JsonMapper.builder()
          .findAndAddModules()
          .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
          .disable(SerializationFeature.WRITE_DATES_AS_TIMESTAMPS)
          .build();

  /** Writes requests and reads answers. It keeps all digits of a number. */
  static final ObjectMapper WIRE =
      JsonMapper.builder().enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS).build();

  private Json() {}

  /** A text without what a node refuses: NUL and halves of letters. */
  static String cleanText(String text) {
    return new String(text.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8)
        .replace('\0', '?');
  }
}
