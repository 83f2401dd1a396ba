//! `fencepost image`: the image of every role, built of this program where it is not there yet.

use std::time::Instant;

use crate::cli::{ClockArguments, HealthyArguments, ImageArguments};
use crate::error::{EXIT_FAILURE, HarnessError};
use crate::runtime;
use crate::targets::docker::{Engine, Recipe};
use crate::terminal::say;

/// Builds it unless it is there, and gives it the name asked for. Prints what it is called.
///
/// # Errors
/// When there is no engine, or the image cannot be built.
pub fn image(arguments: &ImageArguments) -> Result<u8, HarnessError> {
    let begun = Instant::now();
    let engine = Engine::reach()?;
    let executable = std::env::current_exe().map_err(|source| HarnessError::System {
        what: "find the running program",
        source,
    })?;
    let recipe = Recipe::of(&executable)?;
    let runtime = runtime::on_this_thread()?;
    let built = runtime.block_on(async {
        let built = recipe.ensure(&engine).await?;
        engine.tag(&recipe.tag, &arguments.tag).await?;
        Ok::<_, HarnessError>(built)
    })?;
    let how = match built {
        true => format!("built in {:.1} s", begun.elapsed().as_secs_f64()),
        false => "was there already".to_owned(),
    };
    say(format_args!(
        "{} ({how}; {} files, {:.0} MB; also called {})",
        recipe.tag,
        recipe.files.len(),
        recipe.size() as f64 / 1e6,
        arguments.tag
    ));
    Ok(0)
}

/// `fencepost healthy`: whether a service answers, for the health check of a container that has no other program in it.
///
/// # Errors
/// When no client can be made.
pub fn healthy(arguments: &HealthyArguments) -> Result<u8, HarnessError> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(std::time::Duration::from_secs(2))
        .build()
        .map_err(|error| HarnessError::Internal(format!("no HTTP client: {error}")))?;
    let url = format!("http://{}", arguments.url.trim_start_matches("http://"));
    let answer = runtime::on_this_thread()?.block_on(async { client.get(&url).send().await });
    let (words, fine) = match answer {
        Ok(answer) => (answer.status().to_string(), answer.status().is_success()),
        Err(error) => (error.to_string(), false),
    };
    say(words);
    Ok(if fine { 0 } else { EXIT_FAILURE })
}

/// `fencepost clock`: what time it is, as a container beside us is told; and its clock set, where that is asked for.
///
/// A preloaded clock reads its file at every look at the time, and ends the program if it meets half of one: so the file
/// is made beside it and takes its place in one step.
///
/// # Errors
/// When the file cannot be written.
pub fn clock(arguments: &ClockArguments) -> Result<u8, HarnessError> {
    if let Some([file, seconds]) = arguments.set.as_deref() {
        let failed = |source| HarnessError::System {
            what: "set a preloaded clock",
            source,
        };
        let fresh = format!("{file}.new");
        std::fs::write(&fresh, format!("{seconds}\n")).map_err(failed)?;
        std::fs::rename(&fresh, file).map_err(failed)?;
    }
    say(chrono::Utc::now().timestamp());
    Ok(0)
}
