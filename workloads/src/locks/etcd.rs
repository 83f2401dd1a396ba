//! etcd's own lock: the Lock call, under a lease of its own for each acquire.
//!
//! | operation | calls | ok means |
//! |---|---|---|
//! | acquire | LeaseGrant, Lock; while that queues, a Get of the key that it made | etcd said that the lock is ours |
//! | renew | one LeaseKeepAlive | the lease runs, so its key is there |
//! | release | LeaseRevoke, which deletes the key | it did |
//!
//! The token is the key's `create_revision`, or (the trap) the revision in the header of Lock's answer. They differ
//! where the call had to queue. etcd grants the lock to a waiter whose lease lapsed in the queue as well (its issue
//! 11456), together with the waiter behind it, and both answers then carry one header revision. That is left visible:
//! an answer of Lock is a grant, whether or not its lease still runs. It is why the key's revision is looked up while
//! the call queues: afterwards such a waiter's key is gone.
//!
//! Nothing keeps a lease alive but a renewal that was asked for. etcd has leases of whole seconds and none shorter
//! than about twice its election timeout (2 s by default); it tells the one that it gave.
//!
//! | what happened | outcome | why |
//! |---|---|---|
//! | no lease could be had, for any reason | fail | the lock was not asked for yet, and a lease without a key lapses alone |
//! | Lock did not answer `ok`, the lease was then revoked, or had lapsed | fail, `held` where it was the queueing time that ended | the key went with the lease, and no token was ever told |
//! | the same, but the revocation is unknown | unknown | the key may come to hold the lock until its lease lapses |
//! | the lease is not known at a renewal or release | fail, `not-held` | it lapsed, and the key with it |
//! | the hold is not one that this client was told of | fail, `not-held` | nothing was sent |
//!
//! All else is in [`crate::client::etcd`].

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{Client, LockOptions};
use fencepost_checker::history::Token;
use tokio::time::{sleep, timeout};

use crate::client::etcd::{Cluster, failure, known, place, steward as keys};
use crate::client::http::segment;
use crate::client::{
    Call, Endpoint, EndpointError, Failure, Grant, Lock, Outcome, Reason, Steward,
};

/// How often the key of a queueing call is looked for until it is there; nearly always, once.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long an answer of Lock is still waited for when the queueing time has ended. A process that was stopped meanwhile
/// finds its timer and its answer due at once, and an answer that has arrived is one.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// How many holds are remembered; the oldest is forgotten first. A client has one at a time.
const HOLDS: usize = 64;

/// Makes one client.
pub(super) fn connect(endpoint: &Endpoint<'_>) -> Result<Box<dyn Lock>, EndpointError> {
    let settings = &endpoint.options.lock_settings;
    Ok(Box::new(EtcdLock {
        cluster: Cluster::new(endpoint, settings)?,
        place: format!("{}locks/", place(endpoint)?),
        token: match settings.token.as_deref() {
            None | Some("create-revision") => TokenSource::CreateRevision,
            Some("header-revision") => TokenSource::HeaderRevision,
            Some(other) => {
                return Err(endpoint.unusable(format!("{other:?} is no token of etcd's lock")));
            }
        },
        holds: Mutex::default(),
    }))
}

/// Makes the one who looks after the run's keys.
pub(super) fn steward(endpoint: &Endpoint<'_>) -> Result<Box<dyn Steward>, EndpointError> {
    keys(endpoint, &endpoint.options.lock_settings)
}

/// What is taken for the token.
#[derive(Clone, Copy, Eq, PartialEq)]
enum TokenSource {
    CreateRevision,
    HeaderRevision,
}

/// One client of etcd's lock.
struct EtcdLock {
    cluster: Cluster,
    /// Before each lock's name.
    place: String,
    token: TokenSource,
    /// By lock and token.
    holds: Mutex<BTreeMap<(String, Token), Lease>>,
}

/// The lease of a hold, as granted.
#[derive(Clone, Copy)]
struct Lease {
    id: i64,
    ttl: Duration,
}

/// How a call of Lock ended.
enum Queued {
    /// The token, where it could still be found out.
    Granted(Option<i64>),
    /// The queueing time did.
    TimeUp,
    Failed(Failure),
}

impl EtcdLock {
    async fn acquire(&self, lock: &str, ttl: Duration, wait: Duration) -> Outcome<Grant> {
        let name = format!("{}{}", self.place, segment(lock)?);
        let lease = self.lease(ttl).await?;
        match self.queue(&name, lease.id, wait).await {
            Queued::Granted(Some(revision)) => {
                let token = Token::from(revision);
                self.remember(lock, token, lease);
                Ok(Grant {
                    token,
                    ttl: Some(lease.ttl),
                })
            }
            Queued::Granted(None) => {
                let gone = "granted to a lease that had lapsed in the queue";
                self.withdraw(lease, Reason::Other(gone.to_owned())).await
            }
            Queued::TimeUp => self.withdraw(lease, Reason::Held).await,
            Queued::Failed(Failure::Fail(reason)) => self.withdraw(lease, reason).await,
            Queued::Failed(Failure::Unknown(text)) => {
                self.withdraw(lease, Reason::Other(text)).await
            }
        }
    }

    async fn lease(&self, ttl: Duration) -> Outcome<Lease> {
        let seconds = i64::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(i64::MAX);
        let granted = self
            .cluster
            .call(async |mut client| client.lease_grant(seconds.max(1), None).await)
            .await
            .map_err(|failure| {
                let why = match failure {
                    Failure::Fail(reason) => reason.to_string(),
                    Failure::Unknown(text) => text,
                };
                Failure::Fail(Reason::Other(format!("no lease could be had: {why}")))
            })?;
        Ok(Lease {
            id: granted.id(),
            ttl: Duration::from_secs(u64::try_from(granted.ttl()).unwrap_or(0)),
        })
    }

    /// Calls Lock and finds out the token.
    async fn queue(&self, name: &str, lease: i64, wait: Duration) -> Queued {
        let (mut client, generation) = match self.cluster.connection().await {
            Ok(connection) => connection,
            Err(failure) => return Queued::Failed(failure),
        };
        let key = format!("{name}/{lease:x}");
        let mut looking = client.clone();
        let mut call = pin!(client.lock(name, Some(LockOptions::new().with_lease(lease))));
        let mut look = pin!(create_revision(&mut looking, &key));
        let mut revision = None;
        let answered = async {
            loop {
                tokio::select! {
                    biased;
                    answer = &mut call => return answer,
                    seen = &mut look, if revision.is_none() => revision = Some(seen),
                }
            }
        };
        let mut answered = pin!(answered);
        // Also who does not want to queue has to give etcd the time to answer.
        let patience = wait.max(self.cluster.timeout() / 10);
        let answer = match timeout(patience, &mut answered).await {
            Ok(answer) => answer,
            Err(_) => match timeout(LAST_LOOK, &mut answered).await {
                Ok(answer) => answer,
                Err(_) => return Queued::TimeUp,
            },
        };
        match answer {
            Ok(answer) if self.token == TokenSource::HeaderRevision => {
                Queued::Granted(answer.header().map(etcd_client::ResponseHeader::revision))
            }
            Ok(_) => match revision {
                Some(revision) => Queued::Granted(Some(revision)),
                None => match self.look_once(&key).await {
                    Ok(found) => Queued::Granted(found),
                    Err(failure) => Queued::Failed(failure),
                },
            },
            Err(error) => {
                let failure = failure(&error);
                if matches!(failure, Failure::Unknown(_)) {
                    self.cluster.leave(generation).await;
                }
                Queued::Failed(failure)
            }
        }
    }

    /// The create_revision of a key; `None` where there is none.
    async fn look_once(&self, key: &str) -> Outcome<Option<i64>> {
        let look = self
            .cluster
            .call(async |mut client| client.get(key, None).await);
        let found = look.await?;
        Ok(found
            .kvs()
            .first()
            .map(etcd_client::KeyValue::create_revision))
    }

    /// Gives up an acquire: with the lease goes the key, wherever in the queue it stood.
    async fn withdraw(&self, lease: Lease, why: Reason) -> Outcome<Grant> {
        match self.revoke(lease).await {
            Ok(()) | Err(Failure::Fail(Reason::NotHeld)) => Err(Failure::Fail(why)),
            Err(Failure::Fail(reason)) => Err(Failure::Unknown(format!(
                "{why}; and the lease could not be revoked: {reason}"
            ))),
            Err(Failure::Unknown(text)) => Err(Failure::Unknown(format!(
                "{why}; and whether the lease was revoked is unknown: {text}"
            ))),
        }
    }

    async fn revoke(&self, lease: Lease) -> Outcome<()> {
        let revoked = self
            .cluster
            .call(async |mut client| known(client.lease_revoke(lease.id).await))
            .await?;
        revoked.map(drop).ok_or(Failure::Fail(Reason::NotHeld))
    }

    async fn renew(&self, lock: &str, token: Token) -> Outcome<Grant> {
        let lease = self.lease_of(lock, token)?;
        let alive = self
            .cluster
            .call(async |mut client| known(client.lease_keep_alive(lease.id).await))
            .await?;
        match alive {
            Some(_) => Ok(Grant {
                token,
                ttl: Some(lease.ttl),
            }),
            None => {
                self.forget(lock, token);
                Err(Failure::Fail(Reason::NotHeld))
            }
        }
    }

    async fn release(&self, lock: &str, token: Token) -> Outcome<()> {
        let lease = self.lease_of(lock, token)?;
        let released = self.revoke(lease).await;
        if !matches!(released, Err(Failure::Unknown(_))) {
            self.forget(lock, token);
        }
        released
    }

    fn lease_of(&self, lock: &str, token: Token) -> Outcome<Lease> {
        let holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = holds.get(&(lock.to_owned(), token)).copied();
        lease.ok_or(Failure::Fail(Reason::NotHeld))
    }

    fn remember(&self, lock: &str, token: Token, lease: Lease) {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        if holds.len() >= HOLDS {
            let oldest = holds.keys().min_by_key(|(_, token)| *token).cloned();
            oldest.map(|oldest| holds.remove(&oldest));
        }
        holds.insert((lock.to_owned(), token), lease);
    }

    fn forget(&self, lock: &str, token: Token) {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.remove(&(lock.to_owned(), token));
    }
}

/// Looks at a key until it is there.
async fn create_revision(client: &mut Client, key: &str) -> i64 {
    loop {
        if let Ok(found) = client.get(key, None).await
            && let Some(found) = found.kvs().first()
        {
            return found.create_revision();
        }
        sleep(LOOK_EVERY).await;
    }
}

impl Lock for EtcdLock {
    fn acquire<'a>(&'a self, lock: &'a str, ttl: Duration, wait: Duration) -> Call<'a, Grant> {
        Box::pin(self.acquire(lock, ttl, wait))
    }

    /// The lease keeps the length that it was granted with, whatever is asked for.
    fn renew<'a>(&'a self, lock: &'a str, token: Token, _ttl: Duration) -> Call<'a, Grant> {
        Box::pin(self.renew(lock, token))
    }

    fn release<'a>(&'a self, lock: &'a str, token: Token) -> Call<'a, ()> {
        Box::pin(self.release(lock, token))
    }
}
