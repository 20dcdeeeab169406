package dev.weir.client;

import java.security.SecureRandom;
import java.util.UUID;

/** Ids of executions. One that the client makes lets it repeat an enqueue whose answer was lost. */
final class UuidV7 {
  private static final SecureRandom RANDOM = new SecureRandom();

  private UuidV7() {}

  static String next() {
    long high = System.currentTimeMillis() << 16 | 0x7000L | RANDOM.nextInt(1 << 12);
    long low = RANDOM.nextLong() & 0x3fffffffffffffffL | 0x8000000000000000L;
    return new UUID(high, low).toString();
  }
}
