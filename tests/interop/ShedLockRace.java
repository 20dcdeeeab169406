import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/** The Java side of shedlock_race.c: the same critical section, under the library's own lock on the same row. */
public class ShedLockRace {
    static void round(Statement statement) throws Exception {
        int n;
        try (ResultSet row = statement.executeQuery("SELECT n, busy FROM public.guarded")) {
            row.next();
            n = row.getInt(1);
            if (row.getBoolean(2)) {
                statement.executeUpdate("UPDATE public.overlaps SET n = n + 1");
            }
        }
        statement.executeUpdate("UPDATE public.guarded SET busy = true");
        statement.executeUpdate("UPDATE public.guarded SET busy = false, n = " + (n + 1));
    }

    static void race(String url, int rounds) throws Exception {
        try (Connection lockConnection = DriverManager.getConnection(url);
                Connection connection = DriverManager.getConnection(url);
                Statement statement = connection.createStatement()) {
            LockProvider locks = new JdbcTemplateLockProvider(JdbcTemplateLockProvider.Configuration.builder()
                    .withJdbcTemplate(new JdbcTemplate(new SingleConnectionDataSource(lockConnection, true)))
                    .withTableName("weir.shedlock")
                    .usingDbTime()
                    .build());
            for (int done = 0; done < rounds;) {
                Optional<SimpleLock> lock = locks.lock(
                        new LockConfiguration(Instant.now(), "race", Duration.ofSeconds(30), Duration.ZERO));
                if (lock.isPresent()) {
                    round(statement);
                    lock.get().unlock();
                    done++;
                } else {
                    Thread.sleep(1);
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread[] threads = new Thread[Integer.parseInt(arguments[1])];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                try {
                    race(arguments[0], Integer.parseInt(arguments[2]));
                } catch (Exception exception) {
                    exception.printStackTrace();
                    System.exit(1);
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
