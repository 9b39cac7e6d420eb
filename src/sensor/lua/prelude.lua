-- Library functions written in the language itself: their loops are counted like the script's own.
-- Everything is held in locals, so that a script cannot change what these functions rely on.
local internal = ...
local type, select, next, pairs, error = type, select, next, pairs, error
local getmetatable, rawget, rawset, raw_xpcall, raw_tostring = getmetatable, rawget, rawset, xpcall, tostring
local raw_create, raw_resume, raw_yield, unpack = coroutine.create, coroutine.resume, coroutine.yield, unpack
local number_text, exhausted, gmatch_step, check_table, integer = internal.number_text, internal.exhausted, internal.gmatch_step, internal.check_table, internal.integer
local loadstring, caught, too_deep, too_many = internal.loadstring, internal.caught, internal.too_deep, internal.too_many
local fail, wrong_type, is_callable = internal.fail, internal.wrong_type, internal.is_callable

-- A script that was stopped stays stopped, whatever catches the error.
local function after(...)
  if exhausted() then error(internal.stopped, 0) end
  return ...
end

-- In C, `pcall` and `resume` put their boolean beside all results without asking for room, which aborts a machine
-- with checks; so results travel in a table.
local function pack(...) return {...}, select("#", ...) end
-- Whether an error was raised, by the script or a library. Want of memory is not raised, whatever its words: the
-- machine unwinds at once, without a look at the handler.
local raised = false
local function mark(message)
  raised = true
  return message
end
-- What was caught, as the script sees it; does not return where the machine is at a bound.
local function seen(message)
  local own = raised
  raised = false
  message = caught(message, own)
  return after(message)
end
local function outcome(ok, results, count)
  if ok then return after(true, unpack(results, 1, count)) end
  return false, seen(results)
end
local function guarded(f, ...)
  raised = false
  local count = select("#", ...)
  if count == 0 then return raw_xpcall(function() return pack(f()) end, mark) end
  local arguments = {...}
  return raw_xpcall(function() return pack(f(unpack(arguments, 1, count))) end, mark)
end

function pcall(...)
  if select("#", ...) == 0 then fail("bad argument #1 to pcall (value expected)") end
  local f = ...
  -- Nobody calls it, so the message names no line.
  if type(f) ~= "function" and not is_callable(f) then return false, "attempt to call a " .. type(f) .. " value" end
  return outcome(guarded(...))
end

-- The handler runs after the stack is unwound: inside, the hook that stops scripts is switched off.
function xpcall(f, handler)
  if type(f) ~= "function" then wrong_type(f, 1, "xpcall", "function") end
  if type(handler) ~= "function" then wrong_type(handler, 2, "xpcall", "function") end
  local ok, results, count = guarded(f)
  if ok then return after(true, unpack(results, 1, count)) end
  local handled, answer = guarded(handler, seen(results))
  if handled then return after(false, answer[1]) end
  -- Of a handler that fails its own error is given.
  return false, seen(answer)
end

function assert(...)
  if (...) then return ... end
  local _, message = ...
  if message == nil then message = "assertion failed!" end
  if type(message) ~= "string" then wrong_type(message, 2, "assert", "string") end
  fail(message)
end

function tostring(...)
  local value = ...
  if type(value) == "number" then return number_text(value) end
  return raw_tostring(...)
end

tonumber = internal.tonumber

-- What a script calls without knowing: around operands of `..`, and around bounds of counting loops.
function __text(value)
  if type(value) == "number" then return number_text(value) end
  return value
end
-- Upstream's length of a table is its last place, whatever gaps there are. Of a long one what lies behind the length
-- that the machine finds is looked at.
local function length(t)
  local found = #t
  local most, key = found, nil
  if found > 64 then key = found end
  key = next(t, key)
  while key ~= nil do
    if type(key) == "number" and key > most and key < 67108864 and key % 1 == 0 then most = key end
    key = next(t, key)
  end
  return most
end
function __length(value)
  if type(value) == "string" then return #value end
  if type(value) ~= "table" then fail("__len undefined") end
  local metatable = getmetatable(value)
  local own = type(metatable) == "table" and rawget(metatable, "__len")
  if type(own) == "function" then return (own(value)) end
  return length(value)
end
function __count(value)
  if type(value) ~= "number" then fail("for statement bounds must be numbers") end
  return value
end

function load(f, name)
  if type(f) ~= "function" then wrong_type(f, 1, "load", "function") end
  local source = ""
  while true do
    local piece = f()
    if piece == nil or piece == "" then break end
    source = source .. piece
  end
  return loadstring(source, name)
end
_G.loadstring = loadstring

-- More values than upstream has room for are none to count on.
function _G.unpack(...)
  local t, from, to = ...
  check_table(t, 1, "unpack")
  from = from == nil and 1 or integer(from, 2, "unpack")
  to = to == nil and length(t) or integer(to, 3, "unpack")
  if to - from >= 4000 then too_many() end
  return unpack(t, from, to)
end

function print() end
function collectgarbage() end

-- Coroutines inside one another take machine stack that Lua 5.1 does not count.
local depth = 0
local function leave(...)
  depth = depth - 1
  -- No handler stands inside a coroutine, so there the words decide.
  raised = false
  return outcome(...)
end
local function resume(co, ...)
  if type(co) ~= "thread" then wrong_type(co, 1, "resume", "thread") end
  if depth >= 16 then too_deep() end
  depth = depth + 1
  return leave(raw_resume(co, ...))
end
local function unwrap(ok, ...)
  if not ok then error((...), 0) end
  return ...
end
coroutine.resume = resume
function coroutine.yield(...) return raw_yield(pack(...)) end
function coroutine.create(f)
  if type(f) ~= "function" then wrong_type(f, 1, "create", "function") end
  return raw_create(function(...) return pack(f(...)) end)
end
local create = coroutine.create
function coroutine.wrap(f)
  local co = create(f)
  return function(...) return unwrap(resume(co, ...)) end
end

function string.gmatch(text, pattern)
  local position, length = 1, #text
  local function advance(following, ...)
    if following then
      position = following
      return ...
    end
    position = length + 2
  end
  return function()
    if position > length + 1 then return nil end
    return advance(gmatch_step(text, pattern, position))
  end
end
string.gfind = string.gmatch

function table.concat(t, separator, from, to)
  check_table(t, 1, "concat")
  return internal.concat(t, separator, from, to, length(t))
end

function table.insert(t, ...)
  check_table(t, 1, "insert")
  local count = select("#", ...)
  if count == 0 then fail("wrong number of arguments") end
  local last = length(t)
  if count == 1 then
    rawset(t, last + 1, (...))
    return
  end
  local position, value = ...
  position = integer(position, 2, "insert")
  if position >= 1 then
    for i = last, position, -1 do rawset(t, i + 1, rawget(t, i)) end
  end
  rawset(t, position, value)
end

-- A position before the first stands for the last.
function table.remove(t, ...)
  check_table(t, 1, "remove")
  local last = length(t)
  local position = last
  if select("#", ...) > 0 then position = integer((...), 2, "remove") end
  if last == 0 or position > last then return nil end
  if position < 1 then position = last end
  local value = rawget(t, position)
  for i = position, last - 1 do rawset(t, i, rawget(t, i + 1)) end
  rawset(t, last, nil)
  return value
end

function table.getn(t)
  check_table(t, 1, "getn")
  return length(t)
end

function table.maxn(t)
  check_table(t, 1, "maxn")
  local most = 0
  for key in next, t do
    if type(key) == "number" and key > most then most = key end
  end
  return most
end

local function less(a, b) return a < b end

-- A merge sort: the number of comparisons is bounded whatever the order function says.
function table.sort(t, before)
  check_table(t, 1, "sort")
  before = before or less
  local last = length(t)
  local from, to, width = {}, {}, 1
  for i = 1, last do from[i] = rawget(t, i) end
  while width < last do
    for start = 1, last, 2 * width do
      local left, right = start, start + width
      local left_end, right_end = right, right + width
      if left_end > last + 1 then left_end = last + 1 end
      if right_end > last + 1 then right_end = last + 1 end
      for k = start, right_end - 1 do
        if left < left_end and (right >= right_end or not before(from[right], from[left])) then
          to[k] = from[left]
          left = left + 1
        else
          to[k] = from[right]
          right = right + 1
        end
      end
    end
    from, to, width = to, from, 2 * width
  end
  for i = 1, last do rawset(t, i, from[i]) end
end

math.huge = internal.largest
math.random = internal.random
function math.randomseed() end

local function missing(name)
  return function() error(name .. " is not available in a script filter of the embedded cluster", 2) end
end
for _, name in pairs({"dofile", "loadfile", "module", "require", "newproxy"}) do _G[name] = missing(name) end
string.dump = missing("string.dump")
io, debug, channel, package = {}, {}, {}, {path = "", cpath = "", loaded = {}, preload = {}}
for _, name in pairs({"open", "lines", "read", "write", "close", "input", "output", "popen", "tmpfile", "type"}) do
  io[name] = missing("io." .. name)
end
for _, name in pairs({"execute", "exit", "remove", "rename", "setlocale", "tmpname", "setenv"}) do
  os[name] = missing("os." .. name)
end
function debug.traceback(message) return message end

-- The last value that a script returns decides, and only the boolean true passes.
local function last(...)
  local count = select("#", ...)
  if count == 0 then return nil end
  return (select(count, ...))
end
function internal.value(script) return last(script()) end
return function(script) return last(script()) == true end
