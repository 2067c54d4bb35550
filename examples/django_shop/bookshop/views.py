from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from bookshop.models import Order
from bookshop.tasks import send_receipt


class OutOfStock(Exception):
    pass


@csrf_exempt
def buy(request: HttpRequest) -> JsonResponse:
    """The order and its job are stored together, or neither is."""
    try:
        with transaction.atomic():
            order = Order.objects.create(email=request.POST["email"])
            receipt = send_receipt.enqueue(order.id)
            if "sold-out" in request.POST:
                raise OutOfStock
    except OutOfStock:
        return JsonResponse({"error": "sold out"}, status=409)
    return JsonResponse({"order": order.id, "receipt": receipt.id}, status=201)


def receipt(request: HttpRequest, result_id: str) -> JsonResponse:
    found = send_receipt.get_result(result_id)
    return JsonResponse({"status": found.status, "attempts": found.attempts})
