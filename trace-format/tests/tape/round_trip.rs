//! Items are read as they were written, in each device's order.

use crate::common::{Outcome, STACKS, STRINGS, device_of, expected, read, steps, write};
use proptest::prelude::*;
use trace_format::{DeviceId, FrameText, StackId, StringId};

proptest! {
    #[test]
    fn items_come_back_as_they_were(steps in steps(300)) {
        let tape = write(&steps);
        let Outcome { items, recovery, error, .. } = read(&tape).unwrap();
        prop_assert!(error.is_none());
        prop_assert_eq!(recovery.to_string(), "complete");
        for device in (0..3).map(DeviceId) {
            let of_device = |item: &&_| device_of(item) == Some(device);
            let found: Vec<_> = items.iter().filter(of_device).cloned().collect();
            prop_assert_eq!(found, expected(&steps, device));
        }
    }
}

#[test]
fn strings_and_stacks_come_back_by_number() {
    let tape = write(&[]);
    let tables = read(&tape).unwrap().tables;
    assert_eq!((tables.strings_len(), tables.stacks_len()), (STRINGS, STACKS));
    assert_eq!(tables.string(StringId(0)), Some(""));
    assert_eq!(tables.string(StringId(2)), Some("string 2"));
    assert_eq!(tables.string(StringId(STRINGS + 1)), None);
    assert_eq!(tables.stack(StackId::NONE), Some(&[][..]));
    assert_eq!(tables.stack(StackId(STACKS + 1)), None);
    let frames = tables.stack(StackId(3)).unwrap().iter().map(|&id| tables.frame(id).unwrap());
    let frame = |line| FrameText { name: "string 3", filename: "string 1", line };
    assert_eq!(frames.collect::<Vec<_>>(), [frame(3), frame(4)]);
}
