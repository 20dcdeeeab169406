package dev.weir.client;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** The handlers that an object has as methods with {@link WeirHandler}. */
final class HandlerMethods {
  private HandlerMethods() {}

  static Map<String, TaskHandler> of(Object object) {
    Map<String, TaskHandler> handlers = new TreeMap<>();
    Set<List<Object>> seen = new HashSet<>();
    for (Class<?> type = object.getClass(); type != null; type = type.getSuperclass()) {
      for (Method method : type.getDeclaredMethods()) {
        boolean isOverridden =
            !seen.add(List.of(method.getName(), List.of(method.getParameterTypes())));
        WeirHandler name = method.getAnnotation(WeirHandler.class);
        if (name == null || method.isBridge() || isOverridden) {
          continue;
        }
        if (handlers.put(name.value(), handler(object, method)) != null) {
          throw new IllegalArgumentException(
              object.getClass().getName()
                  + " has two methods with @WeirHandler(\""
                  + name.value()
                  + "\")");
        }
      }
    }
    return handlers;
  }

  /**
   * Makes a handler of a method, which may be one of an interface or of a class above that of the
   * object.
   */
  static TaskHandler handler(Object object, Method method) {
    List<Type> inputs = new ArrayList<>();
    for (Type parameter : method.getGenericParameterTypes()) {
      if (parameter != Task.class) {
        inputs.add(parameter);
      }
    }
    if (inputs.size() > 1
        || method.getParameterCount() > 2
        || method.getParameterCount() - inputs.size() > 1) {
      throw new IllegalArgumentException(
          "@WeirHandler: " + method + " must take nothing but a Task and a value of its input");
    }
    if (Modifier.isStatic(method.getModifiers()) || !method.trySetAccessible()) {
      throw new IllegalArgumentException(
          "@WeirHandler: " + method + " must be a method of objects that the client may call");
    }
    Type[] parameters = method.getGenericParameterTypes();
    return task -> call(object, method, parameters, task);
  }

  private static Object call(Object object, Method method, Type[] parameters, Task task)
      throws Exception {
    Object[] arguments = new Object[parameters.length];
    for (int i = 0; i < parameters.length; i++) {
      arguments[i] = parameters[i] == Task.class ? task : task.input(parameters[i]);
    }
    try {
      return method.invoke(object, arguments);
    } catch (InvocationTargetException e) {
      if (e.getCause() instanceof Exception cause) {
        throw cause;
      }
      throw (Error) e.getCause();
    }
  }
}
