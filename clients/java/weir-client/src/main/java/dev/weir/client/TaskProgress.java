package dev.weir.client;

import com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * The last report of progress of a task. Heartbeats carry it until a node has accepted it. Any
 * thread may call.
 */
final class TaskProgress {
  /** A node cuts likewise, but it refuses a heartbeat with megabytes, and the lease is lost. */
  private static final int TEXT_BYTES_MAX = 200;

  private double fraction;
  private String text;
  private long number;
  private long acceptedNumber;
  private Runnable soon = () -> {};

  /** Sets what sends a report. */
  synchronized void onReport(Runnable action) {
    soon = action;
  }

  void set(double newFraction, String newText) {
    Runnable send;
    synchronized (this) {
      fraction = newFraction;
      text = newText == null ? null : Json.cleanText(cut(newText));
      number++;
      send = soon;
    }
    send.run();
  }

  /** The longest beginning of whole characters with so many bytes of UTF-8. */
  private static String cut(String text) {
    int bytes = 0;
    for (int i = 0; i < text.length(); ) {
      int point = text.codePointAt(i);
      bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
      if (bytes > TEXT_BYTES_MAX) {
        return text.substring(0, i);
      }
      i += Character.charCount(point);
    }
    return text;
  }

  /**
   * Puts the report into the item of a heartbeat.
   *
   * @return the number of the report, for {@link #accepted}; 0 = the node has it already
   */
  synchronized long putInto(ObjectNode item) {
    if (number == acceptedNumber) {
      return 0;
    }
    ObjectNode report = item.putObject("progress");
    if (Double.isNaN(fraction)) {
      report.putNull("fraction");
    } else {
      report.put("fraction", Math.min(Math.max(fraction, 0), 1));
    }
    report.put("text", text);
    return number;
  }

  /** The node has accepted this report. */
  synchronized void accepted(long reported) {
    if (reported > 0) {
      acceptedNumber = reported;
    }
  }

  /** Another node has the task, and none of its reports. */
  synchronized void forgetNode() {
    acceptedNumber = 0;
  }
}
