use super::*;

/// Requests of a step, each of a size of its own.
const STEP: u32 = 600;
/// So much memory that the blocks that alternate are a small part.
const RESERVED: u64 = 1 << 40;

fn placement(addr: u64) -> Placement {
    Placement { run: RangeId::new(0), block: None, addr: Addr(addr) }
}

/// Makes the requests of a step, with the number of the request as its address. Returns the addresses one step
/// back.
fn run_step(follower: &mut Follower) -> Vec<Option<u64>> {
    let mut back = Vec::new();
    for request in 0..STEP {
        follower.observe(u64::from(request + 1) * 512, RESERVED);
        back.push(follower.recent()[1].map(|place| place.addr.0));
        follower.remember(placement(u64::from(follower.count)));
    }
    back
}

#[test]
fn a_step_that_is_found_again_is_the_newest_one() {
    let mut follower = Follower::default();
    for _ in 0..5 {
        run_step(&mut follower);
    }
    for _ in 0..20 {
        follower.observe(1 << 30, RESERVED);
    }
    let newest = u64::from(4 * STEP);
    let back = run_step(&mut follower);
    let found = back.iter().position(Option::is_some).expect("the step is found again");
    assert!(found <= LENGTHS[SHORTEST] as usize, "found after {found} requests");
    for (request, addr) in back.iter().enumerate().skip(found) {
        assert_eq!(*addr, Some(newest + request as u64 + 1), "request {request}");
    }
}

#[test]
fn steps_are_found_again_after_the_numbers_began_anew() {
    let mut follower = Follower::default();
    run_step(&mut follower);
    follower.count = NONE - STEP / 2;
    follower.grows_at = NONE;
    run_step(&mut follower);
    assert!(follower.count < STEP, "the numbers began anew");
    let found = (0..3).map(|_| run_step(&mut follower).iter().flatten().count());
    assert!(found.last().is_some_and(|found| found == STEP as usize), "all requests");
}

/// Makes the requests of a step, each with its number as its address, and frees all blocks at once, but for the
/// first of the step: that one is freed after the first of the next. Returns the steps back of the likeliest place.
fn run_alternating_step(follower: &mut Follower, reserved_bytes: u64) -> Vec<Option<u64>> {
    let mut back = Vec::new();
    for request in 0..STEP {
        follower.observe(u64::from(request + 1) * 512, reserved_bytes);
        let at = u64::from(follower.count) - 1;
        let place = follower.recent().into_iter().flatten().next();
        back.push(place.map(|place| (at - place.addr.0) / u64::from(STEP)));
        let number = follower.remember(placement(at));
        match request {
            0 => follower.note_free(number.wrapping_sub(STEP)),
            _ => follower.note_free(number),
        }
    }
    back
}

#[test]
fn a_request_returns_to_the_place_of_one_step_back_unless_its_block_is_live() {
    let mut follower = Follower::default();
    for _ in 0..3 {
        run_alternating_step(&mut follower, RESERVED);
    }
    let back = run_alternating_step(&mut follower, RESERVED);
    assert_eq!(back[0], Some(2), "the block of one step back is live");
    assert!(back[1..].iter().all(|back| *back == Some(1)));
}

#[test]
fn all_requests_return_to_two_steps_back_where_much_of_the_memory_alternates() {
    // One block of 512 bytes alternates.
    let (few, enough) = (ALTERNATING_PART * 512 - 1, ALTERNATING_PART * 512);
    let mut follower = Follower::default();
    for _ in 0..3 {
        run_alternating_step(&mut follower, few);
    }
    let back = run_alternating_step(&mut follower, few);
    assert!(back.iter().all(|back| *back == Some(2)));
    let back = run_alternating_step(&mut follower, enough);
    assert!(back[0] == Some(2) && back[1..].iter().all(|back| *back == Some(1)));
    // What alternated is counted once, however often the step was executed.
    assert_eq!(follower.alternating_bytes, 512);
    follower.observe(1 << 30, RESERVED);
    assert_eq!(follower.alternating_bytes, 0, "another step");
}

#[test]
fn a_plan_may_name_a_request_after_its_end() {
    let planned = |request: u32| PlannedRequest {
        size_bytes: u64::from(request + 1) * 512,
        offset_bytes: 0,
        freed_before: Some(NONE - 1),
    };
    let requests: Vec<PlannedRequest> = (0..STEP).map(planned).collect();
    let mut follower = Follower::default();
    follower.enter_plan(&requests, |request| Some(placement(request.offset_bytes)));
    for _ in 0..3 {
        run_step(&mut follower);
    }
    // No block was freed.
    let all_bytes: u64 = requests.iter().map(|request| request.size_bytes).sum();
    assert_eq!(follower.alternating_bytes, all_bytes);
}

#[test]
fn a_step_repeats_once_it_was_followed_for_two_and_a_half_times_its_length() {
    let mut follower = Follower::default();
    // The second execution is recognized after the shortest sequence, and followed from there.
    let repeating = |follower: &mut Follower| {
        let observe = |request: u32| {
            follower.observe(u64::from(request + 1) * 512, RESERVED);
            follower.remember(placement(u64::from(follower.count)));
            follower.is_repeating()
        };
        (0..STEP).map(observe).collect::<Vec<_>>()
    };
    for step in 1..=3 {
        assert!(!repeating(&mut follower).contains(&true), "execution {step}");
    }
    let fourth = repeating(&mut follower).iter().filter(|is| **is).count();
    assert!((STEP as usize / 3..STEP as usize / 2).contains(&fourth), "{fourth} of the fourth");
    assert!(!repeating(&mut follower).contains(&false), "the fifth execution");
    follower.observe(1 << 30, RESERVED);
    assert!(!follower.is_repeating() && !repeating(&mut follower)[0], "another request");
}

#[test]
fn a_step_that_exceeds_the_budget_gets_no_placements_until_another_one_comes() {
    let mut follower = Follower::default();
    for step in 1..=5 {
        run_step(&mut follower);
        follower.note_overflow();
        assert_eq!(follower.is_suspended(), step == 5, "after step {step}");
    }
    assert!(run_step(&mut follower).iter().all(Option::is_none) && !follower.needs_slack());
    follower.note_overflow();
    assert!(follower.needs_slack());
    follower.observe(1 << 30, RESERVED);
    assert!(run_step(&mut follower).iter().any(Option::is_some) && !follower.needs_slack());
}

/// A request that the plan lacks is passed over. One of another size than planned ends the use of the plan's
/// places, also for requests that it has.
#[test]
fn places_of_a_plan_are_for_steps_like_it() {
    let planned = |request: u32| PlannedRequest {
        size_bytes: u64::from(request + 1) * 512,
        offset_bytes: u64::from(request),
        freed_before: None,
    };
    let requests: Vec<PlannedRequest> = (0..STEP).map(planned).collect();
    let mut follower = Follower::default();
    follower.enter_plan(&requests, |request| Some(placement(request.offset_bytes)));
    let mut has_place = |size_bytes: u64| follower.observe(size_bytes, RESERVED).is_some();
    assert!(requests[..100].iter().all(|request| has_place(request.size_bytes)));
    assert!(!has_place(1 << 30), "the plan lacks it");
    assert!(requests[100..200].iter().all(|request| has_place(request.size_bytes)));
    assert!(!has_place(1 << 30), "in the place of another");
    assert!(!requests[201..].iter().any(|request| has_place(request.size_bytes)));
    let again = requests.iter().filter(|request| has_place(request.size_bytes)).count();
    assert!(again > 0, "a whole step like the plan has its places again");
}
