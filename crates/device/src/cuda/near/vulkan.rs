//! The part of Vulkan that maps device memory for the host.
//!
//! Vulkan's loader is opened at run time. If there is none, or if it does not find the driver of the GPU, the library of NVIDIA's
//! driver that the loader would have found is opened directly. It is an ordinary error, with a clause that says so, if neither
//! knows the device, or if the driver does not let the host reach the device's memory.

use std::fmt;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;
use libloading::Library;

/// A library through which Vulkan is reached.
struct VulkanLibrary {
    file: &'static str,
    /// The function that gives all others.
    entry: &'static std::ffi::CStr,
    /// The function that a driver wants to be called before any other, with the version of the interface between loaders and
    /// drivers that the caller knows. A loader has none.
    negotiate: Option<&'static std::ffi::CStr>,
}

impl VulkanLibrary {
    /// The library of a driver, which is reached as loaders reach it.
    const fn of_driver(file: &'static str) -> Self {
        VulkanLibrary {
            file,
            entry: c"vk_icdGetInstanceProcAddr",
            negotiate: Some(c"vk_icdNegotiateLoaderICDInterfaceVersion"),
        }
    }
}

/// The libraries to try, in this order. The loader comes first, because users can tell it which driver to take. Of the two
/// libraries of the driver, the first one needs no display.
const LIBRARIES: [VulkanLibrary; 3] = [
    VulkanLibrary { file: "libvulkan.so.1", entry: c"vkGetInstanceProcAddr", negotiate: None },
    VulkanLibrary::of_driver("libEGL_nvidia.so.0"),
    VulkanLibrary::of_driver("libGLX_nvidia.so.0"),
];

/// The version of the interface between loaders and drivers that is asked for. From version 2 on, drivers have both functions
/// that are used here.
const DRIVER_INTERFACE: u32 = 2;

/// The properties of device memory that the host reaches, and whose writes are seen without a further call.
const HOST_VISIBLE_KIND: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::DEVICE_LOCAL.as_raw()
        | vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw()
        | vk::MemoryPropertyFlags::HOST_COHERENT.as_raw(),
);

/// How memory is imported: as a file descriptor that the same driver's CUDA part has made.
const FILE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;

/// A GPU as Vulkan sees it.
pub(super) struct Vulkan {
    device: ash::Device,
    /// The indices of the memory types that the host reaches.
    kinds: Vec<u32>,
    /// Dropped after the device.
    _instance: VulkanInstance,
}

impl fmt::Debug for Vulkan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vulkan(memory of types {:?})", self.kinds)
    }
}

/// Why memory could not be imported.
#[derive(Debug)]
pub(super) enum ImportError {
    /// There is no room left in the memory that the host reaches.
    Exhausted,
    /// Another reason, as a clause.
    Because(String),
}

/// Adds the name of the call to the error of a result.
fn checked<T>(call: &str, result: Result<T, vk::Result>) -> Result<T, String> {
    result.map_err(|error| format!("{call} gives {error:?}"))
}

/// The function that agrees with a driver on a version of the interface.
type NegotiateVersion = unsafe extern "system" fn(*mut u32) -> vk::Result;

/// An instance of Vulkan, which is destroyed when this is dropped.
struct VulkanInstance(ash::Instance);

impl VulkanInstance {
    fn new(from: &VulkanLibrary) -> Result<Self, String> {
        let file = from.file;
        // SAFETY: loading the library runs its initialisers, which are those of the loader or the driver.
        let library = unsafe { Library::new(file) }
            .map_err(|_| format!("there is no Vulkan here: {file} cannot be loaded"))?;
        // Some drivers misbehave when they are unloaded, so the library stays loaded.
        let library = std::mem::ManuallyDrop::new(library);
        let absent = |_| format!("{file} has no functions of Vulkan");
        if let Some(name) = from.negotiate {
            // SAFETY: drivers give the function this type.
            let negotiate = unsafe { library.get::<NegotiateVersion>(name) }.map_err(absent)?;
            let mut version = DRIVER_INTERFACE;
            // SAFETY: the driver reads and writes one number.
            checked("the negotiation with the driver", unsafe { negotiate(&mut version) }.result())?;
        }
        // SAFETY: loaders and drivers give the function this type.
        let entry = unsafe { library.get::<vk::PFN_vkGetInstanceProcAddr>(from.entry) };
        let get_instance_proc_addr = *entry.map_err(absent)?;
        // SAFETY: the function is one of the library, which stays.
        let entry = unsafe { ash::Entry::from_static_fn(ash::StaticFn { get_instance_proc_addr }) };
        // SAFETY: the function writes one number.
        let version =
            checked("vkEnumerateInstanceVersion", unsafe { entry.try_enumerate_instance_version() })?;
        if version.is_none_or(|version| version < vk::API_VERSION_1_1) {
            return Err(format!("{file} is older than Vulkan 1.1"));
        }
        let app = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_1);
        let info = vk::InstanceCreateInfo::default().application_info(&app);
        // SAFETY: the description lives as long as the call.
        match unsafe { entry.create_instance(&info, None) } {
            Ok(instance) => Ok(VulkanInstance(instance)),
            Err(vk::Result::ERROR_INCOMPATIBLE_DRIVER) => Err("Vulkan finds no driver".into()),
            Err(error) => Err(format!("vkCreateInstance gives {error:?}")),
        }
    }

    /// Finds the device that CUDA gives this UUID.
    fn find(&self, uuid: [u8; 16]) -> Result<vk::PhysicalDevice, String> {
        // SAFETY: the instance is there.
        let all = checked("vkEnumeratePhysicalDevices", unsafe { self.0.enumerate_physical_devices() })?;
        let same = |device: &vk::PhysicalDevice| {
            let mut id = vk::PhysicalDeviceIDProperties::default();
            // SAFETY: the handle is the instance's, which was asked for a version that has the call.
            let version = unsafe { self.0.get_physical_device_properties(*device) }.api_version;
            if version >= vk::API_VERSION_1_1 {
                let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
                // SAFETY: as above, and so is the device's.
                unsafe { self.0.get_physical_device_properties2(*device, &mut all) };
            }
            id.device_uuid == uuid
        };
        all.into_iter().find(same).ok_or_else(|| "Vulkan finds no driver of this GPU".into())
    }

    /// The indices of a device's memory types that the host reaches.
    fn kinds(&self, device: vk::PhysicalDevice) -> Vec<u32> {
        // SAFETY: the handle is the instance's.
        let memory = unsafe { self.0.get_physical_device_memory_properties(device) };
        let types = memory.memory_types_as_slice();
        let reached =
            types.iter().zip(0..).filter(|(kind, _)| kind.property_flags.contains(HOST_VISIBLE_KIND));
        reached.map(|(_, at)| at).collect()
    }

    /// Opens a device for importing memory from file descriptors.
    fn open(&self, device: vk::PhysicalDevice) -> Result<ash::Device, String> {
        let name = ash::khr::external_memory_fd::NAME;
        // SAFETY: the handle is the instance's.
        let has = unsafe { self.0.enumerate_device_extension_properties(device) };
        let has = checked("vkEnumerateDeviceExtensionProperties", has)?;
        if !has.iter().any(|one| one.extension_name_as_c_str() == Ok(name)) {
            return Err("the Vulkan driver takes no memory from files".into());
        }
        let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&[1.0])];
        let names = [name.as_ptr()];
        let info =
            vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
        // SAFETY: the handle is the instance's, and the description lives as long as the call. Every device has a queue
        // of the first family.
        checked("vkCreateDevice", unsafe { self.0.create_device(device, &info, None) })
    }
}

impl Drop for VulkanInstance {
    fn drop(&mut self) {
        // SAFETY: its devices are gone, since they keep it.
        unsafe { self.0.destroy_instance(None) }
    }
}

impl Vulkan {
    /// Opens the device that CUDA gives this UUID. The error says why its memory cannot be mapped.
    pub(super) fn open(uuid: [u8; 16]) -> Result<Vulkan, String> {
        let [loader, drivers @ ..] = &LIBRARIES;
        Vulkan::open_with(loader, uuid).or_else(|why| {
            let direct = drivers.iter().find_map(|driver| Vulkan::open_with(driver, uuid).ok());
            // The loader is what users can install and set up, so the error is about the loader.
            direct.ok_or(why)
        })
    }

    fn open_with(library: &VulkanLibrary, uuid: [u8; 16]) -> Result<Vulkan, String> {
        let instance = VulkanInstance::new(library)?;
        let device = instance.find(uuid)?;
        let kinds = instance.kinds(device);
        if kinds.is_empty() {
            return Err("the Vulkan driver lets the host reach no memory of this GPU".into());
        }
        Ok(Vulkan { device: instance.open(device)?, kinds, _instance: instance })
    }

    /// Imports the memory that a file descriptor stands for, and maps it for the host.
    pub(super) fn import(self: &Arc<Self>, file: OwnedFd, bytes: usize) -> Result<HostMapping, ImportError> {
        let mut refused = ImportError::Exhausted;
        for kind in &self.kinds {
            let copy = file.try_clone().map_err(|error| ImportError::Because(error.to_string()))?;
            match self.take(*kind, copy, bytes) {
                Ok(memory) => return self.map(memory, bytes),
                Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY) => {}
                Err(error) => refused = ImportError::Because(format!("vkAllocateMemory gives {error:?}")),
            }
        }
        Err(refused)
    }

    /// Imports the memory that a file descriptor stands for as memory of the given type.
    fn take(&self, kind: u32, file: OwnedFd, bytes: usize) -> Result<vk::DeviceMemory, vk::Result> {
        let number = file.into_raw_fd();
        let mut import = vk::ImportMemoryFdInfoKHR::default().handle_type(FILE).fd(number);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(bytes as u64)
            .memory_type_index(kind)
            .push_next(&mut import);
        // SAFETY: the description lives as long as the call; the file is of the same driver's making and has as many
        // bytes.
        let taken = unsafe { self.device.allocate_memory(&info, None) };
        if taken.is_err() {
            // SAFETY: an import that fails leaves the descriptor to the caller.
            drop(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(number) });
        }
        taken
    }

    fn map(self: &Arc<Self>, memory: vk::DeviceMemory, bytes: usize) -> Result<HostMapping, ImportError> {
        // SAFETY: the memory was taken right before, as large, and is mapped once.
        let start = unsafe { self.device.map_memory(memory, 0, bytes as u64, vk::MemoryMapFlags::empty()) };
        let start = start.map_err(|error| format!("vkMapMemory gives {error:?}"));
        let start = start.and_then(|start| NonNull::new(start.cast()).ok_or_else(|| "no mapping".into()));
        start.map(|start| HostMapping { vulkan: self.clone(), memory, start }).map_err(|why| {
            // SAFETY: the memory was taken by the caller, and nobody else knows of it.
            unsafe { self.device.free_memory(memory, None) };
            ImportError::Because(why)
        })
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        // SAFETY: its windows are gone, since they keep it.
        unsafe { self.device.destroy_device(None) }
    }
}

/// Device memory that is mapped for the host until this is dropped.
pub(super) struct HostMapping {
    vulkan: Arc<Vulkan>,
    memory: vk::DeviceMemory,
    start: NonNull<u8>,
}

// SAFETY: nothing is done through the pointer here, and Vulkan's calls on a device may come from any thread.
unsafe impl Send for HostMapping {}

impl fmt::Debug for HostMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMapping({:p})", self.start)
    }
}

impl HostMapping {
    /// The first byte of the mapping, at the start of a page. The host writes to it and never reads it.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for HostMapping {
    fn drop(&mut self) {
        // SAFETY: the memory is this window's own; freeing it takes the mapping away.
        unsafe { self.vulkan.device.free_memory(self.memory, None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever this machine has: no device has this number.
    #[test]
    fn no_vulkan_is_an_ordinary_answer() {
        let why = Vulkan::open([0xa5; 16]).expect_err("there is no such device");
        assert!(why.contains("Vulkan"), "{why}");
    }
}
