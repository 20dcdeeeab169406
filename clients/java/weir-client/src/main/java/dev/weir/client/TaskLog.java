package dev.weir.client;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * The lines of a task that no node has accepted yet. Each request about the task carries them, with
 * their place in the log, so that a node writes a line once that comes twice. Any thread may call.
 */
final class TaskLog {
  static final int BYTES_MAX = 64 << 10;
  private static final int PARTS_MAX = 999; // a node takes one more, which is the line about losses

  private record Part(String text, int bytes) {}

  private final Deque<Part> parts = new ArrayDeque<>();
  private long at;
  private int bytes;
  private long lost;
  private boolean isUrgent;
  private Runnable soon = () -> {};
  private Runnable now = () -> {};

  /**
   * Sets what sends the lines.
   *
   * @param soonAction is called when there is a line
   * @param nowAction is called when half of the space is taken
   */
  synchronized void onLines(Runnable soonAction, Runnable nowAction) {
    soon = soonAction;
    now = nowAction;
  }

  /** Adds a line. The part for which there is no space is left out, and counted. */
  void add(String line) {
    Runnable send;
    synchronized (this) {
      addText(Json.cleanText(line) + "\n");
      boolean becomesUrgent = !isUrgent && isHalfFull();
      isUrgent = isUrgent || becomesUrgent;
      send = becomesUrgent ? now : soon;
    }
    send.run();
  }

  private boolean isHalfFull() {
    return bytes >= BYTES_MAX / 2 || parts.size() >= PARTS_MAX / 2;
  }

  private void addText(String text) {
    byte[] encoded = text.getBytes(StandardCharsets.UTF_8);
    if (lost > 0 && !isHalfFull()) {
      addLoss();
    }
    int kept =
        lost > 0 || parts.size() >= PARTS_MAX ? 0 : Math.min(BYTES_MAX - bytes, encoded.length);
    while (kept > 0 && kept < encoded.length && (encoded[kept] & 0xc0) == 0x80) {
      kept--; // not in the middle of a letter
    }
    if (kept > 0) {
      put(new String(encoded, 0, kept, StandardCharsets.UTF_8), kept);
    }
    lost += encoded.length - kept;
  }

  private void addLoss() {
    String text = "... " + lost + " bytes are left out ...\n";
    put(text, text.length());
    lost = 0;
  }

  private void put(String text, int length) {
    parts.add(new Part(text, length));
    bytes += length;
  }

  /**
   * Puts the lines into the item of a request.
   *
   * @param isLast whether the task has ended
   * @return the place behind the lines, for {@link #accepted}
   */
  synchronized long putInto(ObjectNode item, boolean isLast) {
    if (isLast && lost > 0) {
      addLoss();
    }
    if (!parts.isEmpty()) {
      item.put("log_at", at);
      ArrayNode log = item.putArray("log");
      parts.forEach(part -> log.addObject().put("text", part.text));
    }
    return at + bytes;
  }

  /** A node has accepted the lines before this place. */
  synchronized void accepted(long end) {
    while (!parts.isEmpty() && at + parts.peek().bytes <= end) {
      Part part = parts.remove();
      at += part.bytes;
      bytes -= part.bytes;
    }
    isUrgent = isUrgent && isHalfFull();
  }
}
