package dev.weir.client;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/** Reads a body into memory, and ends with an error when it is larger than the limit. */
final class BoundedBody implements BodySubscriber<byte[]> {
  /** The largest answer of a node has 16 MiB. */
  static final int BYTES_MAX = 32 << 20;

  private final CompletableFuture<byte[]> result = new CompletableFuture<>();
  private final ByteArrayOutputStream read = new ByteArrayOutputStream();
  private final int bytesMax;
  private Flow.Subscription subscription;

  BoundedBody(int bytesMax) {
    this.bytesMax = bytesMax;
  }

  @Override
  public CompletionStage<byte[]> getBody() {
    return result;
  }

  @Override
  public void onSubscribe(Flow.Subscription subscription) {
    this.subscription = subscription;
    subscription.request(Long.MAX_VALUE);
  }

  @Override
  public void onNext(List<ByteBuffer> buffers) {
    for (ByteBuffer buffer : buffers) {
      if (result.isDone()) {
        return;
      }
      if (buffer.remaining() > bytesMax - read.size()) {
        subscription.cancel();
        result.completeExceptionally(
            new IOException("the answer is larger than " + bytesMax + " bytes"));
        return;
      }
      byte[] bytes = new byte[buffer.remaining()];
      buffer.get(bytes);
      read.writeBytes(bytes);
    }
  }

  @Override
  public void onError(Throwable error) {
    result.completeExceptionally(error);
  }

  @Override
  public void onComplete() {
    result.complete(read.toByteArray());
  }
}
