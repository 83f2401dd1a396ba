//! etcd's lock and etcd's keys, against a real etcd.
#![cfg(feature = "etcd")]

use std::time::{Duration, Instant};

use fencepost_workloads::client::{Failure, Reason};
use fencepost_workloads::protocol::{Options, Settings};
use support::{
    Answers, Cable, Server, eventually, held, lock_of, lock_steward, not_held, options,
    other_failure, prepared, resource_of, stale, unknown, value,
};

mod support;

const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);
const NO_WAIT: Duration = Duration::ZERO;
const PATIENT: Duration = Duration::from_secs(30);

async fn etcd(options: &Options) -> Option<Server> {
    let server = Server::etcd()?;
    prepared(lock_steward("etcd"), &server.address, options).await;
    Some(server)
}

fn fenced() -> Options {
    options("etcd", "etcd", None, None)
}

#[tokio::test]
async fn tokens_rise_from_hold_to_hold_and_the_older_one_is_refused_with_the_newer() {
    let options = fenced();
    let Some(server) = etcd(&options).await else {
        return;
    };
    let (first, second) = (
        lock_of("c1", &server.address, &options),
        lock_of("c2", &server.address, &options),
    );
    let (one, two) = (
        resource_of("c1", &server.address, &options),
        resource_of("c2", &server.address, &options),
    );
    assert_eq!(value(&one.read("k").await.expect("a read")), (None, None));

    let old = first.acquire("a", LONG, NO_WAIT).await.expect("free").token;
    one.write("k", old, "c1-1").await.expect("the holder's");
    one.write("k", old, "c1-2").await.expect("again");
    first.release("a", old).await.expect("held");
    let new = second
        .acquire("a", LONG, NO_WAIT)
        .await
        .expect("free")
        .token;
    assert!(new > old, "{new} after {old}");

    // Nobody has written since: the lock's key says no, but there is no higher token to name.
    assert_eq!(one.write("k", old, "c1-3").await, Err(not_held()));
    two.write("k", new, "c2-1").await.expect("the new holder's");
    assert_eq!(one.write("k", old, "c1-4").await, Err(stale(new)));
    // A client that never saw the lock's key refuses the same way.
    let third = resource_of("c3", &server.address, &options);
    assert_eq!(third.write("k", old, "c3-1").await, Err(stale(new)));
    let found = third.read("k").await.expect("a read");
    assert_eq!(value(&found), (Some("c2-1"), Some(new)));

    assert_eq!(first.renew("a", old, LONG).await, Err(not_held()));
    assert_eq!(first.release("a", old).await, Err(not_held()));
}

#[tokio::test]
async fn who_queued_in_vain_leaves_nothing_in_the_queue() {
    let options = fenced();
    let Some(server) = etcd(&options).await else {
        return;
    };
    let lock = |client| lock_of(client, &server.address, &options);
    let (first, second, third) = (lock("c1"), lock("c2"), lock("c3"));
    let token = first.acquire("a", LONG, NO_WAIT).await.expect("free").token;
    let wait = Duration::from_millis(3000);
    let begun = Instant::now();
    assert_eq!(second.acquire("a", LONG, wait).await, Err(held()));
    assert!(begun.elapsed() >= wait, "it queued");
    first.release("a", token).await.expect("held");
    let begun = Instant::now();
    third.acquire("a", LONG, PATIENT).await.expect("free");
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "nobody before it"
    );
}

#[tokio::test]
async fn a_lease_lapses_unless_it_is_renewed_and_is_not_renewed_after_it_lapsed() {
    let options = fenced();
    let Some(server) = etcd(&options).await else {
        return;
    };
    let lock = |client| lock_of(client, &server.address, &options);
    let (first, second) = (lock("c1"), lock("c2"));
    let begun = Instant::now();
    let grant = first.acquire("a", SHORT, NO_WAIT).await.expect("free");
    let ttl = grant.ttl.expect("etcd tells its lease");
    assert!(ttl >= SHORT, "etcd gives no shorter lease, but longer ones");
    while begun.elapsed() < ttl * 2 {
        first.renew("a", grant.token, SHORT).await.expect("it runs");
        tokio::time::sleep(ttl / 4).await;
    }
    let waited = second.acquire("a", LONG, Duration::from_millis(100)).await;
    assert_eq!(waited, Err(held()), "renewals kept it");
    let renewed = Instant::now();
    first.renew("a", grant.token, SHORT).await.expect("it runs");
    let next = second.acquire("a", LONG, PATIENT).await.expect("lapsed");
    assert!(renewed.elapsed() >= ttl, "not before the lease ended");
    assert!(next.token > grant.token);
    assert_eq!(first.renew("a", grant.token, SHORT).await, Err(not_held()));
    assert_eq!(first.release("a", grant.token).await, Err(not_held()));
}

/// A holds the lock; B's short lease lapses in the queue, C's does not; A releases. What B and C are told.
async fn lapsed_waiter(options: &Options) -> Option<[fencepost_checker::history::Token; 2]> {
    let server = etcd(options).await?;
    let lock = |client| lock_of(client, &server.address, options);
    let (a, b, c) = (lock("c1"), lock("c2"), lock("c3"));
    let first = a.acquire("a", LONG, NO_WAIT).await.expect("free").token;
    let pause = |lengths: u32| tokio::time::sleep(SHORT * lengths);
    let (second, third, released) = tokio::join!(
        b.acquire("a", SHORT, PATIENT),
        async {
            pause(1).await;
            c.acquire("a", LONG, PATIENT).await
        },
        async {
            // Leases have whole seconds, and lapse up to about a second late.
            pause(5).await;
            a.release("a", first).await
        }
    );
    released.expect("held");
    let (second, third) = (second.expect("a grant"), third.expect("a grant"));
    assert!(second.token > first && third.token > first);
    assert_eq!(
        b.renew("a", second.token, SHORT).await,
        Err(not_held()),
        "its lease is gone"
    );
    c.renew("a", third.token, LONG)
        .await
        .expect("the true holder");
    // The fence is what tells them apart.
    if options.lock_settings.token.is_none() {
        let resource = |client| resource_of(client, &server.address, options);
        let refused = resource("c2").write("k", second.token, "c2-1").await;
        assert_eq!(
            refused,
            Err(not_held()),
            "the key of the lapsed waiter is gone"
        );
        resource("c3")
            .write("k", third.token, "c3-1")
            .await
            .expect("the holder's");
        let refused = resource("c2").write("k", second.token, "c2-2").await;
        assert_eq!(refused, Err(stale(third.token)));
    }
    Some([second.token, third.token])
}

#[tokio::test]
async fn two_holders_are_told_one_header_revision_when_a_lease_lapsed_in_the_queue() {
    for _ in 0..2 {
        let options = options("etcd", "etcd", Some("header-revision"), Some("none"));
        let Some([lapsed, next]) = lapsed_waiter(&options).await else {
            return;
        };
        assert_eq!(lapsed, next, "the trap");
    }
}

#[tokio::test]
async fn two_holders_are_told_two_create_revisions_and_the_lapsed_one_cannot_write() {
    let Some([lapsed, next]) = lapsed_waiter(&fenced()).await else {
        return;
    };
    assert!(lapsed < next);
}

#[tokio::test]
async fn a_lost_answer_to_a_write_is_unknown_and_the_write_is_there() {
    let options = Options {
        timeout_ms: 1000,
        ..fenced()
    };
    let Some(server) = etcd(&options).await else {
        return;
    };
    let cable = Cable::to(&server.address).await;
    let lock = lock_of("c1", &server.address, &options);
    let token = lock.acquire("a", LONG, NO_WAIT).await.expect("free").token;
    let resource = resource_of("c1", &cable.address, &options);
    resource
        .write("k", token, "c1-1")
        .await
        .expect("the link is fine");
    cable.answers(Answers::Lost);
    assert_eq!(
        unknown(resource.write("k", token, "c1-2").await),
        "no answer in time"
    );
    let seen = resource_of("c2", &server.address, &options);
    let found = seen.read("k").await.expect("a read");
    assert_eq!(
        value(&found),
        (Some("c1-2"), Some(token)),
        "it happened all the same"
    );
    // The connection was dropped: the next one is fine.
    cable.answers(Answers::Pass);
    resource
        .write("k", token, "c1-3")
        .await
        .expect("a new connection");
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_is_definite() {
    let options = fenced();
    let Some(server) = etcd(&options).await else {
        return;
    };
    let cable = Cable::to(&server.address).await;
    let lock = lock_of("c1", &cable.address, &options);
    let resource = resource_of("c1", &cable.address, &options);
    let token = lock.acquire("a", LONG, NO_WAIT).await.expect("free").token;
    resource.write("k", token, "c1-1").await.expect("a link");
    cable.unplug().await;
    // Each has one connection that broke; what is asked next finds that out, or finds none.
    eventually(
        "the broken connection is noticed",
        async || match resource.read("k").await {
            Err(Failure::Fail(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    let refused = "no connection could be made: Connection refused";
    let told = other_failure(resource.write("k", token, "c1-2").await);
    assert!(told.contains(refused), "{told}");
    let told = other_failure(
        lock_of("c2", &cable.address, &options)
            .acquire("b", LONG, NO_WAIT)
            .await,
    );
    assert!(told.contains(refused), "{told}");
    let seen = resource_of("c3", &server.address, &options).read("k").await;
    assert_eq!(value(&seen.expect("a read")).0, Some("c1-1"));
}

#[tokio::test]
async fn an_acquire_that_is_cut_off_in_the_queue_is_definite_only_if_its_lease_could_be_revoked() {
    let options = fenced();
    let Some(server) = etcd(&options).await else {
        return;
    };
    let holder = lock_of("c1", &server.address, &options);
    holder.acquire("a", LONG, NO_WAIT).await.expect("free");
    for unplugged in [false, true] {
        let cable = Cable::to(&server.address).await;
        let waiter = lock_of("c2", &cable.address, &options);
        let (outcome, ()) = tokio::join!(waiter.acquire("a", LONG, PATIENT), async {
            tokio::time::sleep(SHORT).await;
            match unplugged {
                true => cable.unplug().await,
                false => cable.cut(),
            }
        });
        match (unplugged, outcome) {
            (false, Err(Failure::Fail(Reason::Other(_)))) => {}
            (true, Err(Failure::Unknown(text))) => assert!(text.contains("revoked"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn without_a_fence_the_last_one_wins() {
    let options = options("etcd", "etcd", None, Some("none"));
    let Some(server) = etcd(&options).await else {
        return;
    };
    let resource = resource_of("c1", &server.address, &options);
    resource
        .write("k", support::token(9), "c1-1")
        .await
        .expect("a put");
    resource
        .write("k", support::token(7), "c1-2")
        .await
        .expect("a put");
    let found = resource.read("k").await.expect("a read");
    assert_eq!(value(&found), (Some("c1-2"), Some(support::token(7))));
}

#[tokio::test]
async fn a_run_is_cleared_with_all_its_keys_and_nothing_else() {
    let (ours, other) = (
        fenced(),
        Options {
            namespace: "fp_testing".to_owned(),
            ..fenced()
        },
    );
    let Some(server) = etcd(&ours).await else {
        return;
    };
    for options in [&ours, &other] {
        let lock = lock_of("c1", &server.address, options);
        let token = lock.acquire("a", LONG, NO_WAIT).await.expect("free").token;
        let resource = resource_of("c1", &server.address, options);
        resource
            .write("k", token, "c1-1")
            .await
            .expect("the holder's");
    }
    let steward = support::employ(lock_steward("etcd"), &server.address, &ours);
    assert_eq!(steward.strangers().await, Ok(Vec::new()));
    steward.clear().await.expect("it is cleared");
    steward.clear().await.expect("twice is fine");
    for (options, left) in [(&ours, None), (&other, Some("c1-1"))] {
        let found = resource_of("c2", &server.address, options).read("k").await;
        assert_eq!(value(&found.expect("a read")).0, left);
    }
    let free = lock_of("c2", &server.address, &ours)
        .acquire("a", LONG, NO_WAIT)
        .await;
    free.expect("the lock's key is gone too");
}

#[tokio::test]
async fn a_server_that_asks_for_a_password_lets_in_who_has_it_and_says_to_others_what_is_wrong() {
    let Some(server) = etcd(&fenced()).await else {
        return;
    };
    let ask = async |path: &str, body: &str| {
        let url = format!("http://{}/v3/auth/{path}", server.address);
        let sent = reqwest::Client::new().post(url).body(body.to_owned());
        let answer = sent.send().await.expect("it listens");
        assert!(answer.status().is_success(), "{path}: {answer:?}");
    };
    ask("user/add", r#"{"name":"root","password":"open sesame"}"#).await;
    ask("role/add", r#"{"name":"root"}"#).await;
    ask("user/grant", r#"{"user":"root","role":"root"}"#).await;
    ask("enable", "{}").await;

    let folder = tempfile::tempdir().expect("a folder");
    let with = |text: &str| {
        let path = folder.path().join(format!("{}.txt", text.len()));
        std::fs::write(&path, text).expect("a file");
        let settings = Settings {
            user: Some("root".to_owned()),
            password_file: Some(path),
            ..Settings::default()
        };
        Options {
            lock_settings: settings.clone(),
            resource_settings: settings,
            ..fenced()
        }
    };
    let right = with("open sesame\n");
    let lock = lock_of("c1", &server.address, &right);
    let token = lock.acquire("a", LONG, NO_WAIT).await.expect("free").token;
    let resource = resource_of("c1", &server.address, &right);
    resource.write("k", token, "c1-1").await.expect("let in");
    lock.renew("a", token, LONG).await.expect("still held");

    for stranger in [fenced(), with("open wheat")] {
        let resource = resource_of("c2", &server.address, &stranger);
        let refused = resource.write("k", token, "c2-1").await;
        let told = other_failure(refused);
        assert!(!told.contains("wheat"), "{told}");
        assert!(
            told.contains("user name is empty") || told.contains("authentication failed"),
            "{told}"
        );
    }
    let steward = support::employ(lock_steward("etcd"), &server.address, &right);
    steward
        .clear()
        .await
        .expect("it is cleared by who is let in");
}
