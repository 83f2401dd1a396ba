//! PostgreSQL's locks and rows, against a real PostgreSQL.
#![cfg(feature = "postgres")]

use std::time::{Duration, Instant};

use fencepost_checker::history::Token;
use fencepost_workloads::client::{Failure, Lock, Reason};
use fencepost_workloads::protocol::{Options, Settings};
use support::{
    Answers, Cable, Server, eventually, held, lock_of, lock_steward, not_held, options,
    other_failure, prepared, resource_of, resource_steward, stale, token, unknown, value,
};
use tokio_postgres::NoTls;

mod support;

const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(60);
const NO_WAIT: Duration = Duration::ZERO;
const PATIENT: Duration = Duration::from_secs(30);

async fn postgres(options: &Options) -> Option<Server> {
    let server = Server::postgres(None)?;
    prepared(lock_steward(&options.lock), &server.address, options).await;
    prepared(resource_steward("postgres"), &server.address, options).await;
    Some(server)
}

fn rows() -> Options {
    options("postgres", "postgres", None, None)
}

fn advisory() -> Options {
    options("postgres-advisory", "postgres", None, None)
}

fn fence(fence: &str) -> Options {
    options("postgres", "postgres", None, Some(fence))
}

/// Somebody else's session.
async fn session(server: &Server) -> tokio_postgres::Client {
    let port = server.address.rsplit(':').next().expect("a port");
    let how = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
    let (client, connection) = tokio_postgres::connect(&how, NoTls)
        .await
        .expect("a session");
    tokio::spawn(connection);
    client
}

async fn one(client: &tokio_postgres::Client, question: &str) -> i64 {
    let row = client.query_one(question, &[]).await.expect("a row");
    row.get(0)
}

#[tokio::test]
async fn a_lock_row_is_held_renewed_released_and_lapses_by_the_servers_clock() {
    let options = rows();
    let Some(server) = postgres(&options).await else {
        return;
    };
    let lock = |client| lock_of(client, &server.address, &options);
    let (first, second) = (lock("c1"), lock("c2"));
    let one = first.acquire("a", LONG, NO_WAIT).await.expect("free");
    assert_eq!(one.ttl, Some(LONG));
    let begun = Instant::now();
    assert_eq!(second.acquire("a", LONG, SHORT).await, Err(held()));
    assert!(
        begun.elapsed() + Duration::from_millis(100) > SHORT,
        "it queued"
    );
    second
        .acquire("b", LONG, NO_WAIT)
        .await
        .expect("another lock");
    assert_eq!(second.renew("a", one.token, LONG).await, Err(not_held()));
    assert_eq!(second.release("a", one.token).await, Err(not_held()));
    first.renew("a", one.token, LONG).await.expect("held");

    // The holder itself gets a higher token, and its old one is worth nothing any more.
    let two = first
        .acquire("a", LONG, NO_WAIT)
        .await
        .expect("its own")
        .token;
    assert!(two > one.token);
    assert_eq!(first.renew("a", one.token, LONG).await, Err(not_held()));
    first.release("a", two).await.expect("held");
    assert_eq!(first.release("a", two).await, Err(not_held()));

    let begun = Instant::now();
    let three = first
        .acquire("a", SHORT, NO_WAIT)
        .await
        .expect("free")
        .token;
    let four = second
        .acquire("a", LONG, PATIENT)
        .await
        .expect("lapsed")
        .token;
    assert!(begun.elapsed() >= SHORT, "not before the lease ended");
    assert!(two < three && three < four);
    assert_eq!(first.renew("a", three, LONG).await, Err(not_held()));
}

#[tokio::test]
async fn a_lapsed_lease_is_not_renewed_even_if_nobody_took_the_lock() {
    let options = rows();
    let Some(server) = postgres(&options).await else {
        return;
    };
    let lock = lock_of("c1", &server.address, &options);
    let brief = Duration::from_millis(1);
    let token = lock.acquire("a", brief, NO_WAIT).await.expect("free").token;
    eventually("the lease lapses", async || {
        match lock.renew("a", token, brief).await {
            Err(failure) if failure == not_held() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(lock.release("a", token).await, Err(not_held()));
}

#[tokio::test]
async fn many_who_want_one_lock_row_are_granted_tokens_that_rise_and_never_repeat() {
    let options = rows();
    let Some(server) = postgres(&options).await else {
        return;
    };
    let clients: Vec<_> = (0..6).map(|client| format!("c{client}")).collect();
    let granted = |client: &str, lock: Box<dyn Lock>| {
        let client = client.to_owned();
        async move {
            let mut tokens: Vec<Token> = Vec::new();
            for _ in 0..5 {
                let grant = lock.acquire("a", LONG, PATIENT).await;
                let token = grant
                    .unwrap_or_else(|error| panic!("{client}: {error:?}"))
                    .token;
                tokens.push(token);
                lock.release("a", token).await.expect("held");
            }
            tokens
        }
    };
    let tasks: Vec<_> = clients
        .iter()
        .map(|client| granted(client, lock_of(client, &server.address, &options)))
        .map(tokio::spawn)
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        let tokens = task.await.expect("no panic");
        assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
        all.extend(tokens);
    }
    all.sort_unstable();
    let expected: Vec<_> = (1..=30).map(token).collect();
    assert_eq!(all, expected, "one number a grant, and none left out");
}

#[tokio::test]
async fn an_advisory_lock_is_held_until_it_is_released_and_each_grant_draws_a_number() {
    let options = advisory();
    let Some(server) = postgres(&options).await else {
        return;
    };
    let lock = |client| lock_of(client, &server.address, &options);
    let (first, second) = (lock("c1"), lock("c2"));
    let one = first.acquire("a", SHORT, NO_WAIT).await.expect("free");
    assert_eq!(one.ttl, Some(Duration::ZERO), "no time is promised");
    let begun = Instant::now();
    assert_eq!(second.acquire("a", SHORT, SHORT).await, Err(held()));
    assert!(begun.elapsed() >= SHORT, "it queued, and no lease ended");
    second
        .acquire("b", SHORT, NO_WAIT)
        .await
        .expect("another lock");
    first
        .renew("a", one.token, SHORT)
        .await
        .expect("still there");
    assert_eq!(second.renew("a", one.token, SHORT).await, Err(not_held()));
    first.release("a", one.token).await.expect("held");
    assert_eq!(first.release("a", one.token).await, Err(not_held()));
    let two = second
        .acquire("a", SHORT, NO_WAIT)
        .await
        .expect("free")
        .token;
    assert!(two > one.token);
    // A client that gave its hold up without a word does not stand in its own way.
    let three = second
        .acquire("a", SHORT, PATIENT)
        .await
        .expect("its own")
        .token;
    assert!(three > two);
    assert_eq!(second.renew("a", two, SHORT).await, Err(not_held()));
}

#[tokio::test]
async fn an_advisory_lock_is_lost_with_its_connection_and_only_the_fence_knows() {
    let options = advisory();
    let Some(server) = postgres(&options).await else {
        return;
    };
    let cable = Cable::to(&server.address).await;
    let (first, second) = (
        lock_of("c1", &cable.address, &options),
        lock_of("c2", &server.address, &options),
    );
    let resource = |client| resource_of(client, &server.address, &options);
    let (one, two) = (resource("c1"), resource("c2"));
    let old = first.acquire("a", LONG, NO_WAIT).await.expect("free").token;
    one.write("k", old, "c1-1").await.expect("the holder's");
    cable.cut();
    let new = second
        .acquire("a", LONG, PATIENT)
        .await
        .expect("free")
        .token;
    two.write("k", new, "c2-1").await.expect("the new holder's");
    assert_eq!(one.write("k", old, "c1-2").await, Err(stale(new)));
    assert_eq!(first.renew("a", old, LONG).await, Err(not_held()));
    second.renew("a", new, LONG).await.expect("still there");
}

#[tokio::test]
async fn a_number_that_was_told_is_not_drawn_again_after_a_crash() {
    let options = advisory();
    let Some(server) = postgres(&options).await else {
        return;
    };
    let lock = lock_of("c1", &server.address, &options);
    let mut last = token(0);
    for name in ["a", "b", "c"] {
        last = lock.acquire(name, LONG, NO_WAIT).await.expect("free").token;
    }
    // One backend that is killed takes the server's memory with it, and the log is replayed.
    let watcher = session(&server).await;
    let pid = one(&watcher, "SELECT pg_backend_pid()::bigint").await;
    let killed = std::process::Command::new("kill")
        .args(["-KILL", &pid.to_string()])
        .status();
    assert!(killed.expect("kill runs").success());
    let next = eventually("the server is back", async || {
        let fresh = lock_of("c2", &server.address, &options);
        let grant = fresh.acquire("d", LONG, NO_WAIT).await;
        grant
            .map(|grant| grant.token)
            .map_err(|error| format!("{error:?}"))
    })
    .await;
    assert!(next > last, "{next} after {last}");
}

#[tokio::test]
async fn a_fenced_row_takes_equal_and_higher_tokens_and_refuses_lower_ones_with_its_mark() {
    let options = fence("conditional");
    let Some(server) = postgres(&options).await else {
        return;
    };
    let resource = resource_of("c1", &server.address, &options);
    assert_eq!(
        value(&resource.read("k").await.expect("a read")),
        (None, None)
    );
    for (presented, expected) in [(7, Ok(7)), (7, Ok(7)), (6, Err(7)), (9, Ok(9)), (8, Err(9))] {
        let written = resource
            .write("k", token(presented), &format!("v{presented}"))
            .await;
        match expected {
            Ok(mark) => assert_eq!(written.expect("fresh").high_water, Some(token(mark))),
            Err(mark) => assert_eq!(written, Err(stale(token(mark)))),
        }
    }
    let found = resource.read("k").await.expect("a read");
    assert_eq!(value(&found), (Some("v9"), Some(token(9))));
    assert_eq!(found.high_water, Some(token(9)));
    resource
        .write("other", token(1), "v1")
        .await
        .expect("another key");
    let told = other_failure(resource.write("k", Token::from(u64::MAX), "v").await);
    assert!(told.contains("does not fit a bigint"), "{told}");
}

#[tokio::test]
async fn a_check_that_waited_for_the_row_is_made_on_its_newest_version() {
    let options = fence("conditional");
    let Some(server) = postgres(&options).await else {
        return;
    };
    let resource = resource_of("c1", &server.address, &options);
    resource.write("k", token(1), "old").await.expect("fresh");
    let (other, watcher) = (session(&server).await, session(&server).await);
    let raise = "BEGIN; UPDATE fp_test.keys SET fence = 9, value = 'new'";
    other.batch_execute(raise).await.expect("the row is had");
    let (written, ()) = tokio::join!(resource.write("k", token(2), "late"), async {
        waiting(&watcher).await;
        other.batch_execute("COMMIT").await.expect("committed");
    });
    assert_eq!(
        written,
        Err(stale(token(9))),
        "2 was fresh when the statement began"
    );
}

/// Waits until a session waits for another.
async fn waiting(watcher: &tokio_postgres::Client) {
    eventually("somebody waits for a row", async || {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        match one(watcher, count).await {
            0 => Err("nobody".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
}

/// The first holder has looked at the mark, and its answer is on the way, when the second one writes.
async fn overtaken(options: &Options) -> Option<(Token, Option<String>)> {
    let server = postgres(options).await?;
    let cable = Cable::to(&server.address).await;
    let slow = resource_of("c1", &cable.address, options);
    let fast = resource_of("c2", &server.address, options);
    slow.write("k", token(1), "slow-1").await.expect("fresh");
    cable.answers(Answers::Wait);
    let (written, ()) = tokio::join!(slow.write("k", token(1), "slow-2"), async {
        cable.answered().await;
        fast.write("k", token(2), "fast-1").await.expect("fresh");
        cable.answers(Answers::Pass);
    });
    written.expect("accepted");
    let lower = slow.write("k", token(0), "slow-3").await;
    assert!(
        matches!(lower, Err(Failure::Fail(Reason::StaleToken { .. }))),
        "it does look: {lower:?}"
    );
    let found = fast.read("k").await.expect("a read");
    Some((found.token.expect("written"), found.value))
}

#[tokio::test]
async fn a_select_then_an_update_lets_an_older_token_overwrite_a_newer_one() {
    if let Some(found) = overtaken(&fence("select-then-update")).await {
        assert_eq!(
            found,
            (token(1), Some("slow-2".to_owned())),
            "the newer write is lost"
        );
    }
}

#[tokio::test]
async fn one_conditional_statement_does_not() {
    if let Some(found) = overtaken(&fence("conditional")).await {
        assert_eq!(found, (token(2), Some("fast-1".to_owned())));
    }
}

#[tokio::test]
async fn without_a_fence_the_last_one_wins_and_no_mark_is_told() {
    let options = fence("none");
    let Some(server) = postgres(&options).await else {
        return;
    };
    let resource = resource_of("c1", &server.address, &options);
    for presented in [9, 7] {
        let written = resource.write("k", token(presented), "v").await;
        assert_eq!(written.expect("anything goes").high_water, None);
    }
    let found = resource.read("k").await.expect("a read");
    assert_eq!((found.token, found.high_water), (Some(token(7)), None));
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_the_write_is_there() {
    let options = Options {
        timeout_ms: 1000,
        ..rows()
    };
    let Some(server) = postgres(&options).await else {
        return;
    };
    let cable = Cable::to(&server.address).await;
    let (lock, resource) = (
        lock_of("c1", &cable.address, &options),
        resource_of("c1", &cable.address, &options),
    );
    let old = lock.acquire("a", LONG, NO_WAIT).await.expect("free").token;
    resource.write("k", old, "c1-1").await.expect("fresh");
    cable.answers(Answers::Lost);
    assert_eq!(
        unknown(resource.write("k", old, "c1-2").await),
        "no answer in time"
    );
    assert_eq!(
        unknown(lock.renew("a", old, LONG).await),
        "no answer in time"
    );
    let seen = resource_of("c2", &server.address, &options);
    let found = seen.read("k").await.expect("a read");
    assert_eq!(value(&found).0, Some("c1-2"), "it happened all the same");
    // New connections are robbed too, before a statement is sent: that is definite.
    let told = other_failure(resource.write("k", old, "c1-3").await);
    assert_eq!(told, "no connection could be made: it took too long");
    cable.answers(Answers::Pass);
    resource
        .write("k", old, "c1-4")
        .await
        .expect("a new connection");
    cable.unplug().await;
    let told = other_failure(
        lock_of("c3", &cable.address, &options)
            .acquire("b", LONG, NO_WAIT)
            .await,
    );
    assert!(
        told.contains("no connection could be made: Connection refused"),
        "{told}"
    );
}

#[tokio::test]
async fn a_serialization_failure_is_definite_and_no_refusal() {
    let options = rows();
    let Some(server) = postgres(&options).await else {
        return;
    };
    let (other, watcher) = (session(&server).await, session(&server).await);
    let stricter = "ALTER ROLE postgres SET default_transaction_isolation = 'repeatable read'";
    other.batch_execute(stricter).await.expect("a setting");
    let resource = resource_of("c1", &server.address, &options);
    resource.write("k", token(1), "old").await.expect("fresh");
    let raise = "BEGIN; UPDATE fp_test.keys SET fence = 9, value = 'new'";
    other.batch_execute(raise).await.expect("the row is had");
    let (written, ()) = tokio::join!(resource.write("k", token(2), "late"), async {
        waiting(&watcher).await;
        other.batch_execute("COMMIT").await.expect("committed");
    });
    let told = other_failure(written);
    assert!(told.starts_with("ERROR 40001: "), "{told}");
    assert_eq!(
        resource.write("k", token(2), "again").await,
        Err(stale(token(9))),
        "the connection is kept"
    );
}

#[tokio::test]
async fn a_session_that_is_ended_under_a_statement_leaves_it_unknown() {
    let options = rows();
    let Some(server) = postgres(&options).await else {
        return;
    };
    let (other, watcher) = (session(&server).await, session(&server).await);
    let resource = resource_of("c1", &server.address, &options);
    resource.write("k", token(1), "old").await.expect("fresh");
    let have = "BEGIN; UPDATE fp_test.keys SET fence = 9, value = 'new'";
    other.batch_execute(have).await.expect("the row is had");
    let (written, ()) = tokio::join!(resource.write("k", token(2), "late"), async {
        waiting(&watcher).await;
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        assert_eq!(one(&watcher, end).await, 1);
    });
    let told = unknown(written);
    assert!(told.starts_with("FATAL 57P01: "), "{told}");
    other.batch_execute("ROLLBACK").await.expect("rolled back");
    resource
        .write("k", token(2), "again")
        .await
        .expect("a new connection");
}

#[tokio::test]
async fn a_missing_table_is_definite() {
    let options = Options {
        namespace: "fp_nowhere".to_owned(),
        ..rows()
    };
    let Some(server) = postgres(&rows()).await else {
        return;
    };
    let told = other_failure(
        resource_of("c1", &server.address, &options)
            .write("k", token(1), "v")
            .await,
    );
    assert!(told.starts_with("ERROR 42P01: "), "{told}");
}

#[tokio::test]
async fn a_run_is_cleared_with_its_schema_and_strangers_are_named() {
    let options = rows();
    let Some(server) = postgres(&options).await else {
        return;
    };
    let steward = support::employ(lock_steward("postgres"), &server.address, &options);
    assert_eq!(
        steward.strangers().await,
        Ok(Vec::new()),
        "its own tables are none"
    );
    let other = session(&server).await;
    other
        .batch_execute("CREATE TABLE accounts (n int)")
        .await
        .expect("a table");
    let strangers = steward.strangers().await;
    assert_eq!(strangers, Ok(vec!["public.accounts".to_owned()]));
    steward.prepare().await.expect("twice is fine");
    steward.clear().await.expect("it is cleared");
    steward.clear().await.expect("twice is fine");
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname = 'fp_test'";
    assert_eq!(one(&other, left).await, 0);
    assert_eq!(
        one(&other, "SELECT count(*) FROM accounts").await,
        0,
        "not ours, still there"
    );
}

#[tokio::test]
async fn a_password_comes_from_a_file_and_stands_in_no_message() {
    let Some(server) = Server::postgres(Some("open sesame")) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let with = |text: &str| {
        let path = folder.path().join(format!("{}.txt", text.len()));
        std::fs::write(&path, text).expect("a file");
        let settings = Settings {
            password_file: Some(path),
            ..Settings::default()
        };
        Options {
            lock_settings: settings.clone(),
            resource_settings: settings,
            ..rows()
        }
    };
    let right = with("open sesame\n");
    prepared(resource_steward("postgres"), &server.address, &right).await;
    let resource = resource_of("c1", &server.address, &right);
    resource.write("k", token(1), "v").await.expect("let in");
    let wrong = with("open wheat");
    let told = other_failure(resource_of("c1", &server.address, &wrong).read("k").await);
    assert!(told.contains("FATAL 28P01"), "{told}");
    assert!(!told.contains("wheat"), "{told}");
}
