package conformance;

import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * What the Java programs share: the driver's contract, test bodies and waits.
 *
 * <p>The contract is in the README of the clients' folder: AMQP_URI, COMPAT and RESTART come from
 * the environment, one line is printed a step, the first failure ends the program.
 */
final class Walk {
  /** Bounds each wait for something that the broker is to send. */
  static final Duration PATIENCE = Duration.ofSeconds(30);

  static final int MIB = 1 << 20;
  static final String URI = required("AMQP_URI");
  static final String RESTART = required("RESTART");
  static final boolean PROFILE_4 = profile4();

  private final Map<String, Step> steps = new LinkedHashMap<>();

  /** One step; it fails by throwing. */
  interface Step {
    void take() throws Exception;
  }

  private static String required(String name) {
    String value = System.getenv(name);
    if (value == null || value.isEmpty()) {
      throw new IllegalStateException(name + " must be set");
    }
    return value;
  }

  private static boolean profile4() {
    return switch (required("COMPAT")) {
      case "3" -> false;
      case "4" -> true;
      default -> throw new IllegalStateException("COMPAT must be 3 or 4");
    };
  }

  /** A name for this run's queues and exchanges that no other run uses. */
  static String prefix(String client) {
    return "clients." + client + "." + ProcessHandle.current().pid() + "." + System.nanoTime();
  }

  static void check(boolean condition, String what) {
    if (!condition) {
      throw new IllegalStateException(what);
    }
  }

  static void equal(Object got, Object want, String what) {
    check(Objects.deepEquals(got, want), what + " is " + got + ", want " + want);
  }

  /** The next thing that a callback put into the queue. */
  static <T> T next(BlockingQueue<T> queue, String what) throws InterruptedException {
    T thing = queue.poll(PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
    check(thing != null, "no " + what + " in " + PATIENCE.toSeconds() + " s");
    return thing;
  }

  /** A body that differs from itself at each shift up to 251 bytes. */
  static byte[] pattern(int size) {
    byte[] body = new byte[size];
    for (int i = 0; i < size; i++) {
      body[i] = (byte) (i % 251);
    }
    return body;
  }

  static void equalBodies(byte[] got, byte[] want) {
    check(
        Arrays.equals(got, want),
        "got a body of " + got.length + " bytes that differs from the " + want.length + " sent");
  }

  /** Blocks until the broker has gone and come back. */
  static void restartBroker() throws Exception {
    Process process =
        new ProcessBuilder("sh", "-c", RESTART)
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    check(process.waitFor(100, TimeUnit.SECONDS), "the restart command did not end");
    equal(process.exitValue(), 0, "the restart command's exit code");
  }

  Walk step(String name, Step step) {
    steps.put(name, step);
    return this;
  }

  /** Takes the steps in order and ends the process: the clients' threads would keep it alive. */
  void run(String client, String version) {
    System.out.println("client " + client + " " + version);
    for (var step : steps.entrySet()) {
      try {
        step.getValue().take();
      } catch (Exception e) {
        String why = String.valueOf(e).replaceAll("\\s+", " ");
        System.out.println("FAIL " + step.getKey() + ": " + why);
        e.printStackTrace();
        System.exit(1);
      }
      System.out.println("ok " + step.getKey());
    }
    System.exit(0);
  }
}
