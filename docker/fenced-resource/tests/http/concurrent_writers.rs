//! Many writers at once: what must hold whatever the order.
//!
//! A seed fixes the tokens, not the interleaving; every assertion holds for any interleaving.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::StatusCode;
use tokio::task::JoinSet;

use crate::service::{ResourceClient, Service};

/// SplitMix64: a small generator whose every seed is good.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

/// One write as its writer saw it.
struct Seen {
    token: u64,
    value: String,
    accepted: bool,
    high_water: u64,
}

async fn write(client: &ResourceClient, key: &str, token: u64, value: String) -> Seen {
    let answer = client.write(key, token, &value).await;
    let accepted = answer.status == StatusCode::OK;
    assert!(
        accepted || answer.status == StatusCode::CONFLICT,
        "{answer:?}"
    );
    Seen {
        token,
        value,
        accepted,
        high_water: answer.high_water(),
    }
}

/// What one answer by itself must say.
fn check_answer(seen: &Seen) {
    if seen.accepted {
        assert_eq!(seen.high_water, seen.token);
    } else {
        assert!(
            seen.high_water > seen.token,
            "token {} was refused at the mark {}",
            seen.token,
            seen.high_water
        );
    }
}

/// What all answers of a key together must say about the state that is left.
async fn check_final_state(client: &ResourceClient, key: &str, seen: &[Seen]) {
    let accepted: Vec<&Seen> = seen.iter().filter(|write| write.accepted).collect();
    let highest = accepted
        .iter()
        .map(|write| write.token)
        .max()
        .expect("an accepted write");
    let read = client.read(key).await;
    assert_eq!(read.high_water(), highest);
    assert_eq!(read.body["token"], highest);
    assert!(
        accepted
            .iter()
            .any(|write| write.token == highest && read.body["value"] == write.value.as_str()),
        "{read:?} is not an accepted write of the token {highest}"
    );
    for refused in seen.iter().filter(|write| !write.accepted) {
        assert!(
            accepted
                .iter()
                .any(|write| write.token == refused.high_water),
            "a refusal names the mark {}, which nobody wrote",
            refused.high_water
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_64_writers_to_one_key_exactly_those_at_or_above_the_mark_are_accepted() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    let mut writers = JoinSet::new();
    for token in 1..=64 {
        let client = service.client.clone();
        writers.spawn(async move { write(&client, "k", token, format!("v{token}")).await });
    }
    let seen = writers.join_all().await;

    assert_eq!(seen.len(), 64);
    seen.iter().for_each(check_answer);
    assert!(
        seen.iter().any(|write| write.token == 64 && write.accepted),
        "no mark can refuse the highest token"
    );
    check_final_state(&service.client, "k", &seen).await;
    service.stop().await;
}

/// A key and the highest mark that an answer has proven for it.
struct Watched {
    key: String,
    proven: AtomicU64,
}

impl Watched {
    /// Runs a request and holds its answer against every answer that came before it was sent.
    async fn watch<T>(&self, request: impl Future<Output = T>, mark: impl FnOnce(&T) -> u64) -> T {
        let before = self.proven.load(Ordering::SeqCst);
        let answer = request.await;
        let mark = mark(&answer);
        assert!(
            mark >= before,
            "the mark of {} fell from {before} to {mark}",
            self.key
        );
        self.proven.fetch_max(mark, Ordering::SeqCst);
        answer
    }
}

async fn write_randomly(client: ResourceClient, watched: Arc<Watched>, seed: u64) -> Vec<Seen> {
    let mut random = Random(seed);
    let mut all = Vec::new();
    for turn in 0..40 {
        // The range moves up with the turn, so that marks rise and late tokens stay common.
        let token = turn / 2 + random.next(12);
        let value = format!("s{seed}-{turn}");
        let request = write(&client, &watched.key, token, value);
        let seen = watched.watch(request, |seen| seen.high_water).await;
        check_answer(&seen);
        if random.next(3) == 0 {
            let request = client.read(&watched.key);
            watched.watch(request, |read| read.high_water()).await;
        }
        all.push(seen);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_writers_never_see_a_mark_fall_and_the_highest_token_wins() {
    const KEYS: u64 = 3;
    const WRITERS_PER_KEY: u64 = 6;
    let data = tempfile::tempdir().expect("a temporary directory");
    let service = Service::start(data.path()).await;
    for round in 0..4u64 {
        let mut keys = Vec::new();
        for key in 0..KEYS {
            let watched = Arc::new(Watched {
                key: format!("r{round}k{key}"),
                proven: AtomicU64::new(0),
            });
            let mut writers = JoinSet::new();
            for writer in 0..WRITERS_PER_KEY {
                let seed = (round * KEYS + key) * WRITERS_PER_KEY + writer;
                let client = service.client.clone();
                writers.spawn(write_randomly(client, watched.clone(), seed));
            }
            keys.push((watched, writers));
        }
        for (watched, writers) in keys {
            let seen: Vec<Seen> = writers.join_all().await.into_iter().flatten().collect();
            assert!(
                seen.iter().any(|write| !write.accepted),
                "no write of {} was refused, so nothing was tested",
                watched.key
            );
            check_final_state(&service.client, &watched.key, &seen).await;
        }
    }
    service.stop().await;
}
