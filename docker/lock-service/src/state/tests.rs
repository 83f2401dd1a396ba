//! The rules as sentences, on an imaginary clock that counts milliseconds.

use super::*;

/// One lock service on an imaginary clock; tickets are drawn in order of arrival.
struct Table {
    state: State,
    tickets: u64,
}

impl Table {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        Self {
            state: State::new(limits, None),
            tickets: 0,
        }
    }

    fn broken(defect: Defect) -> Self {
        Self {
            state: State::new(Limits::default(), Some(defect)),
            tickets: 0,
        }
    }

    fn ask(&mut self, at: u64, lock: &str, request: Request) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.state.apply(ms(at), ticket, &lock.into(), request);
        ticket
    }

    /// Applies a request that is answered at once.
    fn answer(&mut self, at: u64, lock: &str, request: Request) -> Answer {
        self.state.advance(ms(at));
        self.state.take_effects();
        let ticket = self.ask(at, lock, request);
        let answers = self.state.take_effects().answers;
        let own = answers.iter().find(|(of, _)| *of == ticket);
        own.expect("the request is answered at once").1
    }

    /// Queues an acquire on lock `a`, and sees that it is not answered yet.
    fn queue(&mut self, at: u64, client: &str, ttl: u64, wait: u64) -> Ticket {
        let ticket = self.ask(at, "a", acquire(client, ttl, wait));
        assert_eq!(self.state.take_effects().answers, []);
        ticket
    }

    fn answers_by(&mut self, at: u64) -> Vec<(Ticket, Answer)> {
        self.state.advance(ms(at));
        self.state.take_effects().answers
    }

    /// Client and token of the holder, and the milliseconds that it has left.
    fn holder(&self, at: u64, lock: &str) -> Option<(String, u64, u64)> {
        let view = self.state.view(ms(at), &lock.into());
        let (hold, remaining) = view.holder?;
        Some((hold.client, hold.token, remaining.as_millis() as u64))
    }
}

fn ms(at: u64) -> Moment {
    Duration::from_millis(at)
}

fn acquire(client: &str, ttl: u64, wait: u64) -> Request {
    Request::Acquire {
        client: client.into(),
        ttl: ms(ttl),
        wait: ms(wait),
    }
}

fn renew(client: &str, token: u64, ttl: u64) -> Request {
    Request::Renew {
        client: client.into(),
        token,
        ttl: ms(ttl),
    }
}

fn release(client: &str, token: u64) -> Request {
    Request::Release {
        client: client.into(),
        token,
    }
}

fn granted(token: u64, ttl: u64) -> Answer {
    Answer::Granted {
        token,
        ttl: ms(ttl),
    }
}

fn renewed(token: u64, ttl: u64) -> Answer {
    Answer::Renewed {
        token,
        ttl: ms(ttl),
    }
}

fn record(issued: u64, hold: Option<(&str, u64, u64)>) -> Record {
    Record {
        issued,
        hold: hold.map(|(client, token, ttl)| StoredHold {
            client: client.into(),
            token,
            ttl: ms(ttl),
        }),
    }
}

#[test]
fn tokens_of_a_lock_start_at_one_and_rise_by_one() {
    let mut table = Table::new();
    for token in 1..=3 {
        let answer = table.answer(0, "a", acquire("c1", 100, 0));
        assert_eq!(answer, granted(token, 100));
        assert_eq!(table.answer(0, "a", release("c1", token)), Answer::Released);
    }
}

#[test]
fn each_lock_counts_for_itself() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 100, 0));
    let answer = table.answer(0, "b", acquire("c2", 100, 0));
    assert_eq!(answer, granted(1, 100));
}

#[test]
fn acquire_without_a_wait_is_told_held_at_once() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 100, 0));
    assert_eq!(table.answer(99, "a", acquire("c2", 100, 0)), Answer::Held);
}

#[test]
fn release_hands_the_lock_to_waiters_in_the_order_they_came() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 1000, 0));
    let second = table.queue(10, "c2", 1000, 900);
    let third = table.queue(11, "c3", 1000, 100);

    let release_of_first = table.ask(20, "a", release("c1", 1));
    let answers = table.state.take_effects().answers;
    let expected = [
        (second, granted(2, 1000)),
        (release_of_first, Answer::Released),
    ];
    assert_eq!(answers, expected);

    table.ask(30, "a", release("c2", 2));
    let answers = table.state.take_effects().answers;
    assert_eq!(answers[0], (third, granted(3, 1000)));
}

#[test]
fn lapsed_lease_goes_to_the_first_waiter_and_its_lease_starts_then() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 100, 0));
    let second = table.queue(10, "c2", 50, 500);
    assert_eq!(table.state.next_deadline(), Some(ms(100)));
    assert_eq!(table.answers_by(99), []);
    assert_eq!(table.answers_by(100), [(second, granted(2, 50))]);
    assert_eq!(table.holder(100, "a"), Some(("c2".into(), 2, 50)));
}

#[test]
fn lapse_without_waiters_frees_the_lock_and_is_stored() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 100, 0));
    table.state.advance(ms(100));
    let effects = table.state.take_effects();
    assert_eq!(effects.lapsed, ["a".into()]);
    assert_eq!(effects.unsaved, BTreeSet::from(["a".into()]));
    assert_eq!(table.state.record(&"a".into()), record(1, None));
    assert_eq!(table.holder(100, "a"), None);
}

#[test]
fn waiter_whose_wait_ran_out_is_told_held() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 1000, 0));
    let second = table.queue(10, "c2", 50, 500);
    assert_eq!(table.answers_by(509), []);
    assert_eq!(table.answers_by(510), [(second, Answer::Held)]);
    assert_eq!(table.state.view(ms(510), &"a".into()).waiting, 0);
    table.ask(520, "a", release("c1", 1));
    assert_eq!(table.holder(520, "a"), None);
}

#[test]
fn wait_that_ends_as_the_lease_lapses_is_granted() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 100, 0));
    let second = table.queue(0, "c2", 50, 100);
    assert_eq!(table.answers_by(100), [(second, granted(2, 50))]);
}

#[test]
fn late_timer_keeps_the_order_in_which_things_were_due() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 100, 0));
    let impatient = table.queue(0, "c2", 50, 90);
    let patient = table.queue(0, "c3", 50, 110);
    let answers = table.answers_by(5000);
    assert_eq!(
        answers,
        [(impatient, Answer::Held), (patient, granted(2, 50))]
    );
    assert_eq!(table.holder(5000, "a"), Some(("c3".into(), 2, 50)));
}

#[test]
fn renewal_runs_from_the_moment_it_was_made() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 100, 0));
    assert_eq!(table.answer(60, "a", renew("c1", 1, 200)), renewed(1, 200));
    assert_eq!(table.holder(60, "a"), Some(("c1".into(), 1, 200)));
    assert_eq!(table.state.next_deadline(), Some(ms(260)));
    assert_eq!(
        table.state.record(&"a".into()),
        record(1, Some(("c1", 1, 200)))
    );
}

#[test]
fn renewal_may_also_shorten_a_lease() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 1000, 0));
    table.answer(10, "a", renew("c1", 1, 20));
    assert_eq!(table.answer(30, "a", renew("c1", 1, 20)), Answer::NotHeld);
}

#[test]
fn renew_and_release_need_both_client_and_token() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 100, 0));
    for request in [
        renew("c2", 1, 100),
        renew("c1", 2, 100),
        renew("c1", 0, 100),
        release("c2", 1),
        release("c1", 2),
    ] {
        let answer = table.answer(10, "a", request.clone());
        assert_eq!(answer, Answer::NotHeld, "{request:?}");
    }
    assert_eq!(table.holder(10, "a"), Some(("c1".into(), 1, 90)));
    let unknown = table.answer(10, "never seen", release("c1", 1));
    assert_eq!(unknown, Answer::NotHeld);
}

#[test]
fn lapsed_hold_is_not_held_even_though_nobody_took_it() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 100, 0));
    assert_eq!(table.answer(100, "a", renew("c1", 1, 100)), Answer::NotHeld);
    assert_eq!(table.answer(100, "a", release("c1", 1)), Answer::NotHeld);
}

#[test]
fn release_cannot_be_done_twice() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 100, 0));
    assert_eq!(table.answer(1, "a", release("c1", 1)), Answer::Released);
    assert_eq!(table.answer(2, "a", release("c1", 1)), Answer::NotHeld);
}

#[test]
fn holder_that_acquires_again_gets_a_new_token_ahead_of_waiters() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 100, 0));
    let second = table.queue(10, "c2", 100, 500);
    assert_eq!(
        table.answer(50, "a", acquire("c1", 100, 0)),
        granted(2, 100)
    );
    assert_eq!(table.answer(60, "a", renew("c1", 1, 100)), Answer::NotHeld);
    assert_eq!(table.answer(60, "a", release("c1", 1)), Answer::NotHeld);
    assert_eq!(table.holder(60, "a"), Some(("c1".into(), 2, 90)));
    assert_eq!(table.answers_by(149), [], "the first lease has no end left");
    assert_eq!(table.answers_by(150), [(second, granted(3, 100))]);
}

#[test]
fn withdrawn_waiter_is_never_granted() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 100, 0));
    let second = table.queue(10, "c2", 100, 500);
    let third = table.queue(11, "c3", 100, 500);
    table.state.withdraw(&"a".into(), second);
    assert_eq!(table.answers_by(100), [(third, granted(2, 100))]);
    table.state.withdraw(&"a".into(), third);
    assert_eq!(table.holder(100, "a"), Some(("c3".into(), 2, 100)));
    assert_eq!(table.answers_by(1000), [], "no timer of theirs is left");
}

#[test]
fn exhausted_counter_grants_no_more_and_turns_waiters_away() {
    let mut table = Table::new();
    let name: LockName = "a".into();
    let stored = record(u64::MAX - 1, Some(("c1", u64::MAX - 1, 100)));
    table.state.restore(ms(0), &name, stored);
    let second = table.queue(0, "c2", 100, 500);
    let third = table.queue(0, "c3", 100, 500);

    let answers = table.answers_by(100);
    assert_eq!(
        answers,
        [
            (third, Answer::TokenExhausted),
            (second, granted(u64::MAX, 100))
        ]
    );
    for client in ["c2", "c4"] {
        let answer = table.answer(110, "a", acquire(client, 100, 500));
        assert_eq!(answer, Answer::TokenExhausted, "{client}");
    }
    let answer = table.answer(120, "a", renew("c2", u64::MAX, 100));
    assert_eq!(answer, renewed(u64::MAX, 100));
    let answer = table.answer(500, "a", acquire("c4", 100, 500));
    assert_eq!(answer, Answer::TokenExhausted, "free, yet without a token");
}

#[test]
fn locks_and_waiters_are_bounded() {
    let mut table = Table::with(Limits {
        locks: 1,
        waiters: 1,
        ..Limits::default()
    });
    table.answer(0, "a", acquire("c1", 100, 0));
    table.queue(0, "c2", 100, 50);
    let answer = table.answer(0, "a", acquire("c3", 100, 50));
    assert_eq!(answer, Answer::TooManyWaiters);
    let answer = table.answer(0, "b", acquire("c3", 100, 50));
    assert_eq!(answer, Answer::TooManyLocks);
    assert_eq!(table.answer(0, "b", release("c3", 1)), Answer::NotHeld);
}

#[test]
fn restored_hold_has_its_full_ttl_again() {
    let mut table = Table::new();
    let stored = record(7, Some(("c1", 7, 100)));
    table.state.restore(ms(5000), &"a".into(), stored);
    assert_eq!(table.holder(5000, "a"), Some(("c1".into(), 7, 100)));
    assert_eq!(table.answer(5099, "a", acquire("c2", 100, 0)), Answer::Held);
    assert_eq!(
        table.answer(5100, "a", acquire("c2", 100, 0)),
        granted(8, 100)
    );
}

#[test]
fn only_what_a_restart_must_know_is_stored() {
    let mut table = Table::new();
    table.answer(0, "a", acquire("c1", 100, 0));
    table.ask(0, "a", acquire("c2", 100, 50));
    table.ask(0, "a", acquire("c3", 100, 0));
    table.ask(0, "a", renew("c3", 1, 100));
    table.state.advance(ms(50));
    let effects = table.state.take_effects();
    assert_eq!(effects.unsaved, BTreeSet::new());
    assert_eq!(effects.touched, BTreeSet::from(["a".into()]));
    assert_eq!(effects.answers.len(), 3);
}

/// Many thousand steps drawn from a fixed seed; after each of them the rules must hold.
#[test]
fn rules_hold_on_a_long_random_walk() {
    let mut table = Table::new();
    let mut draw = draws(0x5eed);
    let names: [LockName; 2] = ["a".into(), "b".into()];
    let mut newest = [0; 2];
    let mut open = BTreeSet::new();
    let mut at = 0;
    for _ in 0..20_000 {
        at += draw(8);
        let lock = draw(2) as usize;
        let client = format!("c{}", draw(4));
        let token = newest[lock] - draw(2).min(newest[lock]);
        let request = match draw(6) {
            0..=2 => acquire(&client, 1 + draw(40), draw(60)),
            3 => renew(&client, token, 1 + draw(40)),
            _ => release(&client, token),
        };
        open.insert(table.ask(at, &names[lock], request));
        if draw(10) == 0 {
            let gone = Ticket(1 + draw(table.tickets));
            table.state.withdraw(&names[lock], gone);
        }

        let effects = table.state.take_effects();
        for (ticket, _) in &effects.answers {
            assert!(open.remove(ticket), "{ticket:?} is answered once");
        }
        for (position, name) in names.iter().enumerate() {
            let grants = effects.granted.iter().filter(|of| *of == name).count();
            let issued = table.state.record(name).issued;
            assert_eq!(issued, newest[position] + grants as u64);
            newest[position] = issued;
            let held = table.holder(at, name);
            let waiting = table.state.view(ms(at), name).waiting;
            assert!(held.is_some() || waiting == 0, "a free lock has no waiters");
            assert!(held.is_none_or(|(_, token, left)| token == issued && left > 0));
        }
        let holds = table
            .state
            .locks
            .values()
            .filter(|lock| lock.hold.is_some());
        let waiters = table.state.locks.values().map(|lock| lock.waiters.len());
        let expected = holds.count() + waiters.sum::<usize>();
        assert_eq!(table.state.timers.len(), expected, "a timer for each");
    }
    assert!(newest.iter().all(|token| *token > 1000), "{newest:?}");
}

/// Numbers below a bound, from a linear congruential generator (Knuth's MMIX constants).
fn draws(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    }
}

#[test]
fn who_checks_no_holder_renews_and_releases_for_anybody() {
    let mut table = Table::broken(Defect::RenewWithoutCheck);
    table.answer(0, "a", acquire("c1", 100, 0));
    table.answer(150, "a", acquire("c2", 100, 0));
    assert_eq!(table.answer(160, "a", renew("c1", 1, 100)), renewed(1, 100));
    assert_eq!(table.answer(170, "a", release("c1", 1)), Answer::NotHeld);

    let mut table = Table::broken(Defect::ReleaseWithoutCheck);
    table.answer(0, "a", acquire("c1", 100, 0));
    table.answer(150, "a", acquire("c2", 100, 0));
    assert_eq!(table.answer(160, "a", renew("c1", 1, 100)), Answer::NotHeld);
    assert_eq!(table.answer(170, "a", release("c1", 1)), Answer::Released);
    assert_eq!(table.holder(171, "a"), None);
}

#[test]
fn a_lease_that_ran_out_in_the_queue_is_granted_and_lapses_in_the_same_moment() {
    let mut table = Table::broken(Defect::GrantToLapsedWaiter);
    table.answer(0, "a", acquire("c1", 1_000, 0));
    let second = table.queue(10, "c2", 200, 5_000);
    let third = table.queue(20, "c3", 5_000, 5_000);
    let answers = table.answers_by(1_000);
    assert_eq!(
        answers,
        [(second, granted(2, 200)), (third, granted(3, 5_000))]
    );
    assert_eq!(table.holder(1_001, "a").map(|holder| holder.1), Some(3));
}

#[test]
fn without_a_lease_a_dead_holder_keeps_the_lock() {
    let mut table = Table::broken(Defect::NeverExpires);
    table.answer(0, "a", acquire("c1", 100, 0));
    assert_eq!(
        table.answer(9_000, "a", acquire("c2", 100, 0)),
        Answer::Held
    );
}

#[test]
fn a_narrow_counter_starts_again_and_a_clock_repeats_itself() {
    let mut table = Table::broken(Defect::CounterWraps);
    let tokens: Vec<u64> = (0..20)
        .map(
            |turn| match table.answer(turn, "a", acquire("c1", 100, 0)) {
                Answer::Granted { token, .. } => token,
                other => panic!("no grant but {other:?}"),
            },
        )
        .collect();
    assert!(
        tokens.windows(2).any(|pair| pair[1] < pair[0]),
        "{tokens:?}"
    );
    assert!(tokens.iter().all(|&token| token < 1 << 31));

    let mut table = Table::broken(Defect::TimestampTokens);
    table.state.set_wall_clock(1_700_000_000_000);
    let first = table.answer(0, "a", acquire("c1", 100, 0));
    assert_eq!(first, granted(1_700_000_000_000, 100));
    assert_eq!(table.answer(1, "a", acquire("c1", 100, 0)), first);
}
