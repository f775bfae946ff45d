//! `CUDA_VISIBLE_DEVICES`: which of the machine's devices this process sees, and in which order.

use crate::device;

/// The machine's numbers of the devices that are seen, as the driver reads the variable: numbers, or UUIDs or their
/// beginnings, up to the first that names no device; nothing at all where one is named twice.
pub(crate) fn visible(variable: Option<&str>, devices: u16) -> Vec<u16> {
    let Some(variable) = variable else { return (0..devices).collect() };
    let by_uuid = variable.trim_start().starts_with(device::UUID_PREFIX);
    let mut seen = Vec::new();
    for item in variable.split(',') {
        let found =
            if by_uuid { from_uuid(item.trim(), devices) } else { from_number(item, devices) };
        let Some(device) = found else { break };
        if seen.contains(&device) {
            return Vec::new();
        }
        seen.push(device);
    }
    seen
}

/// A number as `strtol` reads it: what comes behind its digits is not looked at.
fn from_number(item: &str, devices: u16) -> Option<u16> {
    let item = item.trim_start();
    let item = item.strip_prefix('+').unwrap_or(item);
    let digits = item.len() - item.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    item[..digits].parse().ok().filter(|&device| device < devices)
}

/// The one device whose UUID begins so.
fn from_uuid(item: &str, devices: u16) -> Option<u16> {
    let begins = |&device: &u16| {
        item.len() > device::UUID_PREFIX.len() && device::uuid_text(device).starts_with(item)
    };
    let mut found = (0..devices).filter(begins);
    found.next().filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_choose_and_order_the_devices() {
        for (variable, seen) in [
            (None, vec![0, 1, 2, 3]),
            (Some("0"), vec![0]),
            (Some("3,1"), vec![3, 1]),
            (Some(" 2, 0 "), vec![2, 0]),
            (Some("1gpu2,2ampere"), vec![1, 2]),
            (Some(""), vec![]),
            (Some("-1"), vec![]),
            (Some("NoDevFiles"), vec![]),
            (Some("2,-1,0"), vec![2]),
            (Some("1,4,0"), vec![1]),
            (Some("1,1"), vec![]),
            (Some("70000"), vec![]),
        ] {
            assert_eq!(visible(variable, 4), seen, "{variable:?}");
        }
    }

    #[test]
    fn uuids_may_be_cut_while_one_device_is_meant() {
        let whole = device::uuid_text(2);
        let list = format!("{whole},{}", device::uuid_text(0));
        assert_eq!(visible(Some(&list), 4), [2, 0]);
        let ambiguous = &whole[..whole.len() - 1];
        assert!(visible(Some(ambiguous), 4).is_empty());
        assert_eq!(visible(Some(ambiguous), 1), [0]);
        assert!(visible(Some("GPU-"), 1).is_empty());
        assert_eq!(visible(Some(&format!("{whole},1")), 4), [2], "kinds are not mixed");
        assert_eq!(visible(Some(&format!("1,{whole}")), 4), [1], "kinds are not mixed");
        assert!(visible(Some(&format!("{whole},{whole}")), 4).is_empty());
    }
}
